"""A sweep: its variants, and an engine that cannot start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specdec.errors import EnvironmentFault
from specdec.experiment.reading import load
from specdec.folders import cache_folder
from specdec.rehearsal.engines import Progress, Service
from specdec.rehearsal.engines.llamacpp import LlamaCpp
from specdec.rehearsal.sweep import sweep, variants
from specdec.runs.record import measured, read_records

from .fakes import GoldenEngine

pytestmark = pytest.mark.slow

EXPERIMENT = Path(__file__).parents[2] / "experiment.toml"


class Refusing:
    """An engine whose servers do not start."""

    name = "refusing"
    limits = ()

    def __init__(self) -> None:
        self.stopped = 0

    def check(self) -> None: ...

    def prepare(self, on_progress: Progress) -> None: ...

    def start(self, variants: object, logs: Path, on_progress: Progress) -> tuple[Service, ...]:
        raise EnvironmentFault("no server starts here")

    def watch(self) -> None: ...

    def facts(self) -> dict[str, str]:
        return {"name": self.name}

    def stop(self) -> None:
        self.stopped += 1


def test_one_variant_per_window_beside_the_baseline() -> None:
    made = variants(load(EXPERIMENT), [2, 7])
    assert [(variant.name, variant.window) for variant in made] == [
        ("baseline", None),
        ("window-2", 2),
        ("window-7", 7),
    ]
    assert len({variant.draft for variant in made[1:]}) == 1


def test_an_engine_that_does_not_start_is_stopped_and_leaves_no_run(tmp_path: Path) -> None:
    engine = Refusing()
    with pytest.raises(EnvironmentFault, match="no server starts"):
        sweep(load(EXPERIMENT), [2, 4], engine, tmp_path)
    assert engine.stopped == 1
    assert list(tmp_path.rglob("manifest.json")) == []


def test_every_window_is_asked_the_prompts_of_this_machine(tmp_path: Path) -> None:
    manifest = sweep(load(EXPERIMENT), [2, 4], GoldenEngine(), tmp_path, test_cases=("story",))
    assert manifest.status == "complete"
    assert manifest.configuration["benchmark"]["prompts"] == "rehearsal"
    asked = {variant: counts["ok"] for variant, counts in manifest.counts.items()}
    assert asked.keys() == {"baseline", "window-2", "window-4"}
    assert len(set(asked.values())) == 1
    assert (tmp_path / manifest.run / "manifest.json").exists()


@pytest.mark.slow
def test_the_smallest_windows_really_propose(tmp_path: Path) -> None:
    line = "The quick brown fox jumps over the lazy dog."
    (tmp_path / "prompts.txt").write_text(
        f"Write this line twenty times: {line} {line} {line}\n", encoding="utf-8"
    )
    default = load(EXPERIMENT)
    benchmark = default.benchmark.model_copy(
        update={"prompts": str(tmp_path / "prompts.txt"), "output_tokens": 48}
    )
    engine = LlamaCpp(cache=cache_folder(os.environ) / "weights")
    manifest = sweep(default.model_copy(update={"benchmark": benchmark}), [1, 2], engine, tmp_path)
    records = list(measured(read_records(tmp_path / manifest.run / "records.jsonl")))
    proposed = {record.variant: record.server.draft_tokens for record in records if record.server is not None}
    assert proposed.keys() == {"window-1", "window-2"}
    assert min(proposed.values()) > 0
    assert len({record.text for record in records}) == 1
