"""One variant after the other: servers that a cluster's API starts and ends, and a machine that drifts."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specdec.analysis.judge import judge
from specdec.analysis.pairing import log_ratios, pairs
from specdec.benchmark.counters import summed
from specdec.benchmark.course import Switch
from specdec.benchmark.load import phases
from specdec.benchmark.run import run
from specdec.errors import BadInputError, EnvironmentFault
from specdec.golden.settings import Settings
from specdec.golden.truth import Uniform
from specdec.metrics.tpot import TPOT
from specdec.pod.scaling import Deployments, Turns
from specdec.pod.waiting import not_ready
from specdec.runs.record import read_records
from tests.benchmark.cluster import Cluster
from tests.benchmark.conftest import MakePlan

pytestmark = pytest.mark.alone

STEP, SPEED, DRIFT = 0.012, 1.2, 1.3
NAMES = {"baseline": "plain-vllm", "draft": "draft-vllm"}


def drifting(name: str, starts: int) -> Settings | None:
    """Each server that is started is 30% slower than the one before it."""
    step = STEP * DRIFT**starts / (SPEED if name == NAMES["draft"] else 1.0)
    return Settings(ttft=0.01, step=step, per_step=Uniform(1, 1))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(list(NAMES.values()), drifting)
    yield made
    made.close()


def turns(cluster: Cluster, folder: Path, *, seconds: float = 10.0, leave: float = 0.0) -> Turns:
    return Turns(
        there=Deployments(cluster.api(folder)),
        deployments=NAMES,
        services={variant: cluster.urls[name] for variant, name in NAMES.items()},
        ready=not_ready,
        seconds=seconds,
        leave_seconds=leave,
        say=lambda _: None,
        poll=0.02,
    )


def switching(order: Turns) -> Switch:
    """Has a variant served, and tells nothing of what it runs on."""

    async def switch(variant: str) -> dict[str, Any]:
        await order.serve(variant)
        return {}

    return switch


def test_every_phase_sends_the_same_in_the_same_order(make_plan: MakePlan) -> None:
    urls = {"baseline": "http://a", "first": "http://b", "second": "http://c"}
    plan = make_plan(urls, count=6, cases=2, repeats=2, concurrency=2, warmup=1, schedule="sequential")
    planned = list(phases(plan))
    assert [phase.variant for phase in planned] == [0, 1, 0, 2, 0, 1, 0, 2, 0]
    orders = {tuple(job.prompt.id for block in phase.blocks for job in block.jobs) for phase in planned}
    assert len(orders) == 1
    assert {len(order) for order in orders} == {6}
    baseline = [phase for phase in planned if phase.variant == 0]
    repeats = [{job.repeat for block in phase.blocks for job in block.jobs} for phase in baseline]
    assert repeats == [{0}, {1}, {2}, {3}, {4}]
    for number, phase in enumerate(planned):
        jobs = [*phase.warmup.jobs, *(job for block in phase.blocks for job in block.jobs)]
        assert {job.phase for job in jobs} == {number}
    blocks = [block.number for phase in planned for block in phase.blocks]
    assert blocks == list(range(len(blocks)))
    assert plan.total == 9 * (6 + 1)


def test_a_drift_that_a_plain_comparison_would_take_for_an_effect_cancels(
    cluster: Cluster, make_plan: MakePlan, tmp_path: Path
) -> None:
    """The draft is 1.2 times as fast, and every server is 30% slower than the one before it."""
    urls = {variant: cluster.urls[name] for variant, name in NAMES.items()}
    plan = make_plan(urls, count=6, repeats=2, concurrency=3, warmup=1, schedule="sequential")
    manifest = run(plan, tmp_path / "run", switch=switching(turns(cluster, tmp_path)))
    records = list(read_records(tmp_path / "run" / "records.jsonl"))
    assert manifest.status == "complete", manifest.problem
    assert [name.partition("-")[0] for name in cluster.starts] == [
        "plain",
        "draft",
        "plain",
        "draft",
        "plain",
    ]
    assert cluster.together == 1, "never two at once"
    assert cluster.up() == [NAMES["baseline"]]
    assert manifest.counts == {"baseline": {"ok": 18}, "draft": {"ok": 12}}
    assert [phase for phase in range(5) for r in records if r.phase == phase and r.warmup] == list(range(5))

    of = {name: [r for r in records if r.variant == name and not r.warmup] for name in NAMES}
    ratios = log_ratios(pairs(of["baseline"], of["draft"]), TPOT.of)
    naive = math.exp(sum(ratio.value for ratio in ratios) / len(ratios))
    # Wide enough for a busy machine: 1.2 / 1.3 is wrong by more than it disturbs.
    assert naive < 1.05, "phase by phase the draft looks no faster"
    told = judge(manifest, records)
    (row,) = [row for row in told.comparisons if row.variant == "draft"]
    assert row.tpot is not None
    assert row.tpot.value == pytest.approx(SPEED, rel=0.1)
    assert abs(math.log(row.tpot.value / SPEED)) < abs(math.log(naive / SPEED)) / 2
    assert [level.variant for level in told.phases] == ["baseline", "draft", "baseline", "draft", "baseline"]
    last = told.phases[-1].against_first
    assert last is not None
    assert last > DRIFT**3, "the report shows how far the baseline moved"


def test_a_server_that_does_not_come_up_ends_the_run_with_a_word_and_keeps_what_was_measured(
    make_plan: MakePlan, tmp_path: Path
) -> None:
    failing = Cluster(
        list(NAMES.values()), lambda name, starts: None if name == NAMES["draft"] else drifting(name, starts)
    )
    try:
        urls = {variant: failing.urls[name] for variant, name in NAMES.items()}
        plan = make_plan(urls, count=3, repeats=1, schedule="sequential")
        manifest = run(plan, tmp_path / "run", switch=switching(turns(failing, tmp_path, seconds=0.2)))
    finally:
        failing.close()
    assert manifest.status == "failed"
    assert manifest.problem is not None
    assert "draft at http://127.0.0.1" in manifest.problem
    assert "is not ready 0 s after it was started for its phase" in manifest.problem
    assert "nodes are still up, and paid: specdec nodes down" in manifest.problem
    assert manifest.counts["baseline"] == {"ok": 3}
    assert judge(manifest, read_records(tmp_path / "run" / "records.jsonl")).sentence.startswith("No verdict")


def test_the_next_phase_waits_until_the_last_server_is_gone(cluster: Cluster, tmp_path: Path) -> None:
    order = turns(cluster, tmp_path, leave=0.3)
    asyncio.run(order.serve("baseline"))
    started = time.monotonic()
    asyncio.run(order.serve("draft"))
    assert time.monotonic() - started >= 0.3, "the pod that leaves has its grace period"
    # Where nothing was ended there is nothing to wait for, however long the grace period.
    patient = turns(cluster, tmp_path, leave=3600.0)
    asyncio.run(asyncio.wait_for(patient.serve("draft"), 60))


def test_the_api_is_asked_again_where_it_stumbles_and_not_where_it_refuses(
    cluster: Cluster, tmp_path: Path
) -> None:
    there = Deployments(cluster.api(tmp_path))
    cluster.refusals = [500, 503, 409]
    there.scale(NAMES["draft"], 1)
    assert there.replicas(NAMES["draft"]) == (1, 1)
    assert cluster.bodies == [(NAMES["draft"], {"spec": {"replicas": 1}})]
    cluster.refusals = [403] * 2
    with pytest.raises(EnvironmentFault, match="HTTP 403: golden: 403") as refused:
        there.scale(NAMES["draft"], 0)
    assert "Role benchmark-phases" in (refused.value.remedy or "")
    assert cluster.refusals == [403], "a refusal is not asked again"


def test_several_loads_and_one_variant_are_no_design_of_phases(make_plan: MakePlan) -> None:
    with pytest.raises(BadInputError, match="Name one load"):
        make_plan({"a": "http://a", "b": "http://b"}, schedule="sequential", loads=(1.0, 2.0))
    with pytest.raises(BadInputError, match="nothing to compare with"):
        make_plan({"a": "http://a"}, schedule="sequential")


def test_counters_of_phases_add_up() -> None:
    first = {"drafts": 2, "accepted_tokens": 3, "accepted_per_position": [2, 1], "source": "vllm"}
    second = {"drafts": 1, "accepted_tokens": 1, "accepted_per_position": [1], "source": "vllm"}
    assert json.dumps(summed([first, second])) == json.dumps(
        {"drafts": 3, "accepted_tokens": 4, "accepted_per_position": [3, 1], "source": "vllm"}
    )
    assert summed([first, None]) is None
    assert summed([]) is None
