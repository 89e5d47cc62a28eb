"""Interrupted runs that are gone on with: nothing that stands is asked again, and nothing else is taken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from specdec.analysis.judge import judge
from specdec.benchmark.course import RunEvent
from specdec.benchmark.plan import Plan
from specdec.benchmark.run import run
from specdec.errors import BadInputError
from specdec.golden.settings import Settings
from specdec.golden.truth import Speculation
from specdec.prompts.sets import Prompt
from specdec.runs.folder import read_run
from specdec.runs.manifest import RunManifest
from specdec.runs.record import RequestRecord, read_records
from specdec.runs.unfinished import read_unfinished

from .conftest import MakePlan, Start

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FAST = Settings(ttft=0.01, step=0.002)
SPECULATIVE = replace(FAST, per_step=Speculation(0.8, 4))


def ctrl_c_after(requests: int) -> Callable[[RunEvent], None]:
    def interrupt(event: RunEvent) -> None:
        if event.record is not None and not event.record.warmup and event.done == requests:
            os.kill(os.getpid(), signal.SIGINT)

    return interrupt


@pytest.fixture
def plan(start: Start, make_plan: MakePlan) -> Plan:
    _, base = start(FAST)
    _, fast = start(SPECULATIVE)
    urls = {"baseline": base, "speculative": fast}
    return make_plan(urls, count=6, cases=2, repeats=2, warmup=1, concurrency=2, seed=3)


def interrupted(plan: Plan, folder: Path, after: int = 11) -> RunManifest:
    manifest = run(replace(plan, run="first"), folder / "first", on_event=ctrl_c_after(after))
    assert manifest.status == "interrupted"
    return manifest


def asked(records: list[RequestRecord]) -> Counter[tuple[str, str, int]]:
    return Counter((r.variant, r.prompt, r.repeat) for r in records if not r.warmup)


def test_a_resumed_run_measures_only_what_is_missing(plan: Plan, tmp_path: Path) -> None:
    interrupted(plan, tmp_path)
    before = read_run(tmp_path / "first")
    manifest = run(replace(plan, run="second"), tmp_path / "second", interrupted=before)
    after = read_run(tmp_path / "second")
    whole = {(t.variant, p.id, n) for t in plan.targets for p in plan.prompts for n in range(plan.repeats)}
    assert manifest.status == "complete"
    assert asked(list(after.records)) == dict.fromkeys(whole, 1)
    (seam,) = manifest.seams
    kept = after.records[: seam.records]
    assert kept == tuple(record for record in before.records if record in kept)
    assert 0 < sum(not record.warmup for record in kept) < 12
    assert {record.run for record in after.records[seam.records :]} == {"second"}
    assert (seam.run, seam.problem) == ("first", before.manifest.outcome)
    assert seam.set_aside == sum(not r.warmup for r in before.records) - sum(not r.warmup for r in kept)
    assert seam.block == min(r.block for r in after.records if r.run == "second" and not r.warmup)
    # Every block on one side, and one clock through both parts.
    sides = {(r.block, r.run) for r in after.records if not r.warmup}
    assert len(sides) == len({block for block, _ in sides})
    last = max(r.sent + (r.closed or 0.0) for r in kept)
    assert all(0 <= r.sent - last < 60 for r in after.records[seam.records :])
    assert manifest.counts == {"baseline": {"ok": 12}, "speculative": {"ok": 12}}
    # What was interrupted is as it was.
    assert read_run(tmp_path / "first") == before
    # Nothing is left to resume.
    with pytest.raises(BadInputError, match="is complete"):
        run(replace(plan, run="third"), tmp_path / "third", interrupted=after)


def test_a_run_may_be_interrupted_again_and_again(plan: Plan, tmp_path: Path) -> None:
    interrupted(plan, tmp_path, after=7)
    second = run(
        replace(plan, run="second"),
        tmp_path / "second",
        interrupted=read_run(tmp_path / "first"),
        on_event=ctrl_c_after(17),
    )
    assert second.status == "interrupted"
    third = run(replace(plan, run="third"), tmp_path / "third", interrupted=read_run(tmp_path / "second"))
    assert (third.status, [seam.run for seam in third.seams]) == ("complete", ["first", "second"])
    records = read_run(tmp_path / "third").records
    assert set(asked(list(records)).values()) == {1}
    assert {record.run for record in records} == {"first", "second", "third"}


OTHERS: dict[str, dict[str, object]] = {
    "configuration": {"configuration_hash": "1" * 12},
    "seed": {"seed": 4},
    "ignore_eos": {"ignore_eos": False},
    "prompts": {"prompts": (Prompt(id="p0", test_case="case-0", prompt_class="open", text="Other."),)},
    "is no request of this plan": {"output_tokens": 9},
}


@pytest.mark.parametrize("words", ["targets", *OTHERS])
def test_another_plan_is_refused_and_nothing_is_written(plan: Plan, tmp_path: Path, words: str) -> None:
    interrupted(plan, tmp_path)
    changes: dict[str, object] = OTHERS.get(words) or {"targets": plan.targets[:1]}
    other = replace(plan, run="other", **changes)  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadInputError, match=words):
        run(other, tmp_path / "other", interrupted=read_run(tmp_path / "first"))
    assert not (tmp_path / "other").exists()


def test_another_model_is_refused(plan: Plan, start: Start, tmp_path: Path) -> None:
    interrupted(plan, tmp_path)
    _, other = start(replace(FAST, model="another"))
    moved = replace(plan, run="other", targets=tuple(replace(t, url=other) for t in plan.targets))
    with pytest.raises(BadInputError, match="is another model than golden"):
        run(moved, tmp_path / "other", interrupted=read_run(tmp_path / "first"))


def test_loads_go_on_where_they_were(start: Start, make_plan: MakePlan, tmp_path: Path) -> None:
    _, base = start(FAST)
    _, fast = start(SPECULATIVE)
    urls = {"baseline": base, "speculative": fast}
    plan = make_plan(urls, count=4, repeats=2, loads=(1.0, 2.0), concurrency=2, warmup=0)
    interrupted(plan, tmp_path)
    manifest = run(replace(plan, run="second"), tmp_path / "second", interrupted=read_run(tmp_path / "first"))
    assert manifest.status == "complete"
    assert {(point.load, point.end) for point in manifest.points} <= {
        (1.0, "complete"),
        (2.0, "complete"),
        (2.0, "saturated"),
    }
    assert all(point.sent <= point.planned and point.seconds > 0 for point in manifest.points)
    (seam,) = manifest.seams
    assert seam.records > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_bench_goes_on_with_a_folder(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    server, url = start(Settings(ttft=0.01, step=0.01))
    specdec = [sys.executable, "-c", "from specdec.cli import main; main()"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    options = [
        "--target",
        f"plain={url}",
        "--target",
        f"drafted={url}",
        "--self-check",
        "1",
        "--output-tokens",
        "20",
        "--test-case",
        "json",
        "--repeats",
        "3",
        "--usd-per-hour",
        "2",
    ]
    started = subprocess.Popen(
        [*specdec, "bench", *options, "--concurrency", "2", "--out", "runs"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    # Warm-up, and a first block with all of its turns: the baseline's against itself among them.
    while len(server.truths) < 15 and time.monotonic() < deadline:
        time.sleep(0.02)
    started.send_signal(number)
    _, said = started.communicate(timeout=20)
    (folder,) = (tmp_path / "runs").iterdir()
    assert "self-check" in {record.lane for record in read_records(folder / "records.jsonl")}
    if number == signal.SIGTERM:
        assert f"specdec bench --resume runs/{folder.name}" in said
    else:
        killed = read_unfinished(folder)
        assert killed.manifest.variants["plain"].get("model") == "golden"
        progress = judge(killed.manifest, killed.records).progress
        assert progress is not None
        # Twelve prompts a target, warm-up, and the baseline against itself with its own.
        assert progress.planned == 24 + 2 * 2 + 12 + 2
        assert 0 < progress.ended == len(killed.records) < progress.planned

    def bench(*more: str) -> subprocess.CompletedProcess[str]:
        # By its id: it lies in the folder that bench writes to.
        resume = [*specdec, "bench", "--resume", folder.name, *more]
        return subprocess.run(
            resume, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )

    if number == signal.SIGTERM:
        refused = bench("--repeats", "5")
        assert refused.returncode == 2
        assert "--repeats: would change the plan" in refused.stderr
    ended = bench("--json")
    assert ended.returncode == 0, ended.stderr
    assert "whole blocks stand" in ended.stderr
    assert "for warming up again" in ended.stderr
    answer = json.loads(ended.stdout)
    records = list(read_records(tmp_path / answer["folder"] / "records.jsonl"))
    exact = [record for record in records if record.lane == "exact"]
    assert set(asked(exact).values()) == {1}
    assert sum(asked(exact).values()) == 24
    assert len(asked(records)) < sum(asked(records).values())
    assert answer["manifest"]["seams"][0]["run"] == folder.name
    assert answer["manifest"]["environment"]["server_usd_per_hour"] == 2.0
    now, before = answer["manifest"]["environment"], answer["manifest"]["seams"][0]["environment"]
    assert now.keys() - {"load"} == before.keys()
