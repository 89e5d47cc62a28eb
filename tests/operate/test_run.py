from __future__ import annotations

import json
import re

import pytest

from specdec.commands.run import objects, with_changes
from specdec.errors import BadInputError
from specdec.experiment.reading import load
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
