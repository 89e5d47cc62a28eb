from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

from specdec.analysis.significance import MIN_PROMPTS
from specdec.catalog.images import STACKS
from specdec.commands.run import (
    as_it_was,
    folder_of,
    interrupted_manifest,
    objects,
    placed,
    refuse_changes,
    step_cost_changes,
    with_changes,
)
from specdec.errors import BadInputError
from specdec.experiment.reading import load
from specdec.prompts.sets import load as load_prompts
from tests.analysis.simulate import manifest
from tests.operate.conftest import DEFAULT, REGION

EXPERIMENT = load(DEFAULT)


def test_another_run_is_another_job_with_the_benchmark_changed_and_nothing_else() -> None:
    changed = with_changes(EXPERIMENT, {"repeats": 5, "lanes": ("exact",)})
    assert (changed.benchmark.repeats, changed.benchmark.lanes) == (5, ("exact",))
    assert changed.serving == EXPERIMENT.serving
    first = objects(changed, region=REGION, bucket="b", run="20261129T100000Z-abc123")
    second = objects(changed, region=REGION, bucket="b", run="20261129T100001Z-abc123")
    (job,) = (item for item in first if item["kind"] == "Job")
    (other,) = (item for item in second if item["kind"] == "Job")
    assert job["metadata"]["name"] != other["metadata"]["name"]
    assert len(job["metadata"]["name"]) <= 63
    assert re.fullmatch(r"[a-z0-9-]+", job["metadata"]["name"])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert {"name": "RUN", "value": "20261129T100000Z-abc123"} in container["env"]
    settings = [
        json.loads(text)
        for item in first
        if item["kind"] == "ConfigMap"
        for key, text in item["data"].items()
        if key == "experiment.json"
    ]
    assert settings[0]["benchmark"]["repeats"] == 5
    assert {item["kind"] for item in first} == {"ConfigMap", "Job"}


def test_prompts_that_cannot_be_read_are_refused_before_anything_is_started() -> None:
    with pytest.raises(BadInputError):
        with_changes(EXPERIMENT, {"prompts": "no-such-file.jsonl"})


def test_a_prompt_file_may_lie_anywhere_and_travels_under_its_name(tmp_path: Path) -> None:
    beside = Path("/experiments")
    assert placed(None, beside) == (None, beside)
    assert placed("classes", beside) == ("classes", beside)
    assert placed("synthetic:input=64,output=32,count=2", beside)[1] == beside
    for name, kept in (("own.txt", "own.txt"), ("classes", "./classes")):
        (tmp_path / name).write_text("Say hi\n", encoding="utf-8")
        said, base = placed(str(tmp_path / name), beside)
        assert (said, base) == (kept, tmp_path)
        wanted = with_changes(EXPERIMENT, {"prompts": said}, base=base)
        items = objects(wanted, region=REGION, bucket="b", run="20261129T100000Z-abc123", base=base)
        (command,) = (
            item["spec"]["template"]["spec"]["containers"][0]["command"][-1]
            for item in items
            if item["kind"] == "Job"
        )
        assert f" > {name} " in command


def test_a_resumed_run_finds_its_prompt_file_where_it_lies_now(tmp_path: Path) -> None:
    beside, moved = tmp_path / "beside", tmp_path / "moved"
    for folder in (beside, moved):
        (folder / "mine").mkdir(parents=True)
    (moved / "mine" / "own.txt").write_text("Say hi\n", encoding="utf-8")
    assert folder_of("classes", None, beside) == beside
    with pytest.raises(BadInputError, match=r"which is not in .*--prompts FILE"):
        folder_of("mine/own.txt", None, beside)
    assert folder_of("mine/own.txt", str(moved / "mine" / "own.txt"), beside) == moved
    with pytest.raises(BadInputError, match="is not the run's own prompt file"):
        folder_of("mine/own.txt", str(moved / "own.txt"), beside)
    with pytest.raises(BadInputError, match="would change the plan of a resumed run"):
        folder_of("classes", "published", beside)
    (beside / "mine" / "own.txt").write_text("Say hi\n", encoding="utf-8")
    assert folder_of("mine/own.txt", None, beside) == beside


def test_step_costs_are_measured_alone_with_few_short_prompts() -> None:
    loaded = EXPERIMENT.model_copy(
        update={
            "benchmark": EXPERIMENT.benchmark.model_copy(
                update={"arrival": "poisson", "rate": 2.0, "loads": (1.0, 4.0), "lanes": ("exact", "llmperf")}
            )
        }
    )
    wanted = with_changes(loaded, step_cost_changes(loaded)).benchmark
    assert (wanted.lanes, wanted.loads, wanted.arrival, wanted.rate) == (("exact",), (), "closed", None)
    assert wanted.concurrency == 1
    prompts = load_prompts(wanted.prompts)
    # Enough prompts to resample, and a minute of the published experiment's plain steps for each variant.
    assert len(prompts) >= MIN_PROMPTS
    assert len(prompts) * wanted.repeats * wanted.output_tokens * 0.045 < 90


def test_step_costs_need_a_window() -> None:
    plain = EXPERIMENT.model_copy(update={"variants": (EXPERIMENT.baseline,)})
    with pytest.raises(BadInputError, match="has no variant with a window"):
        step_cost_changes(plain)


def test_every_stack_says_what_is_known_of_a_schedule_of_what_is_kept() -> None:
    page = " ".join(Path("docs/forecast.md").read_text(encoding="utf-8").split())
    for stack in STACKS.values():
        assert stack.scheduled_acceptance in page


def test_a_resumed_run_has_the_benchmark_of_the_interrupted_one() -> None:
    before = with_changes(EXPERIMENT, {"repeats": 5}).measured(REGION)
    interrupted = manifest(
        {},
        run="20261129T100000Z-abc123",
        status="interrupted",
        configuration=before.resolved(),
        configuration_hash=before.configuration_hash(),
    )
    wanted = as_it_was(EXPERIMENT, REGION, interrupted)
    assert wanted.benchmark.repeats == 5
    items = objects(wanted, region=REGION, bucket="b", run="20261129T110000Z-abc123", resume=interrupted.run)
    (job,) = (item for item in items if item["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert {"name": "RESUME", "value": interrupted.run} in container["env"]
    serving = EXPERIMENT.serving.model_copy(update={"max_num_seqs": 8})
    with pytest.raises(BadInputError, match="was of another experiment: serving differ"):
        as_it_was(EXPERIMENT.model_copy(update={"serving": serving}), REGION, interrupted)
    with pytest.raises(BadInputError, match="--repeats = 3: would change the plan"):
        refuse_changes({"repeats": 3})


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (None, "is not in the bucket"),
        (manifest({}, run="r").to_json(), "is complete"),
        ("{}", "has a manifest that cannot be read"),
    ],
)
def test_a_run_that_cannot_be_resumed_says_why(stored: str | None, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        interrupted_manifest("r", cast("Any", Bucket(stored)), "b")


class Bucket:
    """An S3 client with the manifest of one run, or with nothing."""

    def __init__(self, stored: str | None) -> None:
        self.stored = stored

    def get_paginator(self, name: str) -> Bucket:
        assert name == "list_objects_v2"
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        return [{"Contents": [{"Key": "runs/r/manifest.json"}] if self.stored else []}]

    def get_object(self, **_: str) -> dict[str, Any]:
        return {"Body": io.BytesIO((self.stored or "").encode())}
