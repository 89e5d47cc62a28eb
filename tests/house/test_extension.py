"""What CONTRIBUTING says about adding a metric or an instance is true."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

import charts
from scripts import write_instances
from specdec.catalog.images import STACKS
from specdec.catalog.instances import INSTANCES
from specdec.catalog.stacks import ModeSupport
from specdec.errors import BadInputError
from specdec.experiment.reading import load, parse
from specdec.metrics import ALL, OF_RUN
from specdec.pricing.elsewhere import candidates
from specdec.pricing.workload import Workload
from specdec.serving import artifact_path

ROOT = Path(__file__).parents[2]
PRODUCT = ("specdec", "stacks", "charts", "constructs")
EXAMPLE = ROOT / "examples" / "eagle3.toml"


@pytest.mark.parametrize("metric", [*ALL, *OF_RUN], ids=lambda metric: metric.name)
def test_a_metric_is_named_in_its_own_module_alone(metric: object) -> None:
    name = f'"{getattr(metric, "name")}"'  # noqa: B009 - two types of metric have it
    places = [
        str(path.relative_to(ROOT))
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        if name in path.read_text(encoding="utf-8")
    ]
    # LLMPerf's series have the names under which they were published, some of them the same.
    others = [place for place in places if place != "specdec/publish/series.py"]
    assert len(others) == 1
    assert others[0].startswith("specdec/metrics/")


def test_an_instance_is_an_entry_of_the_catalogue_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    new = dataclasses.replace(
        INSTANCES["trn2.48xlarge"],
        type="trn9.4xlarge",
        devices=4,
        claim_sizes=(1, 2, 4),
        vcpus=64,
        memory_bytes=512 * 2**30,
        hugepages_mib=1024,
        quota_on_demand="L-00000009",
        steps=(),
    )
    monkeypatch.setitem(INSTANCES, new.type, new)
    text = EXAMPLE.read_text(encoding="utf-8")
    experiment = parse(
        text.replace("trn2.48xlarge", new.type)
        .replace("[capacity]", "[capacity]\nallow_unlisted_region = true")
        .replace("devices = 4", "devices = 2")
    )
    made = charts.build(experiment, region="us-east-2", bucket="bucket")
    claim = json.dumps(made["device-claims"].to_json())
    assert "trn9.4xlarge" in claim
    assert "topology2_id" in claim
    server = json.dumps(made["llama-vllm"].to_json())
    assert '"hugepages-2Mi": "1024Mi"' in server
    assert '"node.kubernetes.io/instance-type": "trn9.4xlarge"' in server
    compared = candidates(
        load(EXAMPLE),
        "us-east-2",
        Workload(prompts=4, test_cases=2, llmperf_cases=0),
        today=date(2026, 12, 1),
    )
    (found,) = [candidate for candidate in compared if candidate.instance_type == new.type]
    assert (found.refused, found.devices, found.tensor_parallel_degree) == (None, 2, 8)


def test_a_mode_is_an_entry_of_its_stack_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file to the server's arguments, the artifact's key, the price and the page."""
    stack = STACKS["vllm-0.29.0-sdk-2.33.0"]
    planted = ModeSupport(
        method="planted-method",
        settings={"planted_setting": 7},
        on={"trn2.48xlarge": "measured"},
        note="planted",
    )
    monkeypatch.setitem(stack.modes, "planted", planted)
    text = EXAMPLE.read_text(encoding="utf-8")
    eagle, mode = (parse(written) for written in (text, text.replace('mode = "eagle"', 'mode = "planted"')))
    (_, speculative), (_, before) = mode.variants, eagle.variants
    made = charts.build(mode, region="us-east-2", bucket="bucket")
    (deployment,) = [item for item in made[speculative.service].to_json() if item["kind"] == "Deployment"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    configuration = json.loads(arguments[arguments.index("--speculative-config") + 1])
    assert configuration["method"] == "planted-method"
    assert configuration["num_speculative_tokens"] == speculative.window
    assert '"planted_setting":7' in arguments[arguments.index("--additional-config") + 1].replace(" ", "")
    plain = made[mode.variants[0].service].to_json()
    assert "planted" not in json.dumps(plain), "the baseline knows nothing of it"
    assert artifact_path(mode, speculative) != artifact_path(eagle, before)
    own, *_ = candidates(
        mode,
        "us-east-2",
        Workload(prompts=4, test_cases=2, llmperf_cases=0),
        today=date(2026, 12, 1),
    )
    best, worst = own.predictions[1].tpot
    assert best < own.predictions[0].tpot[0] < worst, "nothing is published of it, so all is open"
    assert write_instances.cell(INSTANCES["trn2.48xlarge"], stack, stack.support("planted")) == "measured"
    older = text.replace('mode = "eagle"', 'mode = "planted"').replace(stack.name, "vllm-0.21.0-sdk-2.31.1")
    with pytest.raises(BadInputError, match="is not offered by vllm-0"):
        parse(older)


def test_the_page_of_instances_says_what_the_catalogue_says() -> None:
    found = subprocess.run(
        [sys.executable, "scripts/write_instances.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
