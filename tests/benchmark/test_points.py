"""Several loads in one run: order, held load, what stops a point, and what is said of it."""

import random
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from specdec.benchmark.gauges import Gauges, mean_between, parse
from specdec.benchmark.load import blocks
from specdec.benchmark.plan import Job
from specdec.benchmark.points import Points
from specdec.benchmark.run import run
from specdec.commands.bench import command as bench
from specdec.errors import BadInputError
from specdec.experiment.reading import load as load_experiment
from specdec.golden.settings import Settings
from specdec.runs.folder import read_run
from specdec.runs.point import Point
from specdec.runs.record import RequestRecord

from .conftest import MakePlan, Measure, Start

pytestmark = pytest.mark.slow

TWO = {"baseline": "http://a", "speculative": "http://b"}


def in_flight(records: list[RequestRecord], at: float) -> int:
    """Cancelled requests were in flight until the end of the block."""
    return sum(
        r.sent <= at and (r.outcome == "cancelled" or at < r.sent + r.chunk_times[-1]) for r in records
    )


def test_a_steady_drift_falls_on_all_loads_alike(make_plan: MakePlan) -> None:
    plan = make_plan(TWO, count=8, cases=2, loads=(1.0, 2.0, 4.0), repeats=4)
    made = list(blocks(plan))
    visits = [key for key, _ in groupby((block.visit, block.plan.concurrency) for block in made)]
    assert visits == [(visit, load) for visit in range(4) for load in ([1, 2, 4], [4, 2, 1])[visit % 2]]
    # In units of one visit, the mean time at which a load is measured is the same for all.
    places = {load: [i for i, (_, other) in enumerate(visits) if other == load] for load in (1, 2, 4)}
    assert len({sum(found) for found in places.values()}) == 1
    first = Counter((block.plan.concurrency, block.order[0]) for block in made)
    for load in (1, 2, 4):
        assert first[load, 0] == first[load, 1]


def test_a_load_gets_as_many_repeats_as_fill_it(make_plan: MakePlan) -> None:
    plan = make_plan(TWO, count=3, loads=(1.0, 8.0), repeats=2)
    pairs = Counter(
        (block.plan.concurrency, job.prompt.id, job.repeat) for block in blocks(plan) for job in block.jobs
    )
    assert set(pairs.values()) == {1}
    assert sorted({repeat for load, _, repeat in pairs if load == 8}) == [0, 1, 2, 3, 4, 5]
    assert all(len(block.jobs) >= block.plan.concurrency for block in blocks(plan))
    assert plan.total == 2 * sum(len(block.jobs) for block in blocks(plan))


def test_rates_are_visited_too(make_plan: MakePlan) -> None:
    plan = make_plan(TWO, count=4, arrival="poisson", loads=(0.5, 2.0), repeats=2)
    assert [block.plan.rate for block in blocks(plan)] == [0.5, 2.0, 2.0, 0.5]
    assert plan.total == 2 * 2 * 2 * 4


@pytest.mark.parametrize(
    ("loads", "arrival", "said"),
    [
        ((1.0, 1.0, 2.0), "closed", "Write 1, 2"),
        ((4.0, 1.0), "closed", "Write 1, 4"),
        ((0.0, 1.0), "closed", "1 or more"),
        ((0.5, 1.0), "closed", "whole numbers"),
        ((-1.0,), "poisson", "rates above 0"),
    ],
)
def test_wrong_loads_are_refused(
    loads: tuple[float, ...], arrival: str, said: str, make_plan: MakePlan
) -> None:
    with pytest.raises(BadInputError) as caught:
        make_plan(TWO, loads=loads, arrival=arrival)
    assert said in str(caught.value)


def test_the_load_is_held_until_the_last_measured_request_has_ended(
    start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    _, url = start(Settings(ttft=0.05, step=0.01, jitter=0.9))
    plan = make_plan({"baseline": url}, count=4, loads=(1.0, 4.0), repeats=1, output_tokens=20)
    manifest, records = measure(plan)
    assert manifest.status == "complete"
    assert {record.load for record in records} == {1.0, 4.0}
    fillers = [record for record in records if record.warmup]
    assert fillers
    assert {record.load for record in fillers} == {4.0}
    for block in {record.block for record in records if record.load == 4.0}:
        own = [record for record in records if record.block == block]
        ends = [r.sent + r.chunk_times[-1] for r in own if not r.warmup]
        begun = max(r.sent for r in own if not r.warmup)
        times = [begun + (max(ends) - begun) * part / 50 for part in range(1, 50)]
        # A moment passes between the end of one request and the start of the next in its place.
        assert sum(in_flight(own, time) >= 3 for time in times) >= 47
    assert manifest.counts == {"baseline": {"ok": 8}}
    assert [(p.load, p.planned, p.sent, p.end) for p in manifest.points] == [
        (1.0, 4, 4, "complete"),
        (4.0, 4, 4, "complete"),
    ]


def test_rates_are_held_too(start: Start, make_plan: MakePlan, measure: Measure) -> None:
    _, url = start(Settings(ttft=0.1, step=0.01))
    plan = make_plan({"baseline": url}, count=4, arrival="constant", loads=(10.0, 20.0), output_tokens=20)
    manifest, records = measure(plan)
    assert {record.rate for record in records} == {10.0, 20.0}
    assert any(record.warmup for record in records if record.rate == 20.0)
    sent = sorted(record.sent for record in records if record.rate == 10.0)
    assert all(0.05 < b - a < 0.15 for a, b in pairwise(sent))
    assert all(p.unit == "per second" and p.latest_send_seconds is not None for p in manifest.points)


def test_a_point_that_takes_too_long_is_cut_and_said(
    start: Start, make_plan: MakePlan, tmp_path: Path
) -> None:
    _, url = start(Settings(ttft=0.02, step=0.01))
    plan = make_plan({"baseline": url}, count=8, loads=(1.0, 8.0), point_seconds=0.4, output_tokens=12)
    manifest = run(plan, tmp_path / "run")
    slow, fast = manifest.points
    assert (slow.end, fast.end) == ("time", "complete")
    assert 2 <= slow.sent < 8
    assert read_run(tmp_path / "run").manifest.points == manifest.points


def test_loads_above_saturation_are_not_measured(start: Start, make_plan: MakePlan, measure: Measure) -> None:
    # Two at a time: more in flight brings no more tokens.
    _, url = start(Settings(ttft=0.01, step=0.01, max_num_seqs=2))
    plan = make_plan({"baseline": url}, count=4, loads=(1.0, 2.0, 4.0, 8.0), repeats=2, output_tokens=50)
    manifest, records = measure(plan)
    assert [(p.load, p.end) for p in manifest.points] == [
        (1.0, "complete"),
        (2.0, "complete"),
        (4.0, "complete"),
        (8.0, "saturated"),
    ]
    assert {record.load for record in records} == {1.0, 2.0, 4.0}


def test_a_load_whose_visits_agree_is_settled_and_a_wavering_one_is_not(make_plan: MakePlan) -> None:
    chance = random.Random(3)
    ends: dict[float, list[str]] = {}
    for spread in (0.0005, 0.03):
        plan = make_plan(TWO, count=4, loads=(1.0, 2.0), repeats=8)
        points = Points(plan, list(blocks(plan)))
        for block in blocks(plan):
            if not points.goes_on(block):
                continue
            for target in plan.targets:
                for job in block.jobs:
                    # Both servers slow down alike, which tells nothing of their ratio.
                    step = 0.02 * (1 + 0.5 * block.visit) * chance.lognormvariate(0, spread)
                    points.note(answer(target.variant, job, block.plan.concurrency, step))
                points._entries[float(block.plan.concurrency), target.variant].sent += len(block.jobs)  # pyright: ignore[reportPrivateUsage]
        ends[spread] = [point.end for point in points.manifest(interrupted=False)]
        sent = [point.sent for point in points.manifest(interrupted=False)]
        assert (sent == [16] * 4) == (spread < 0.01), "four visits of four prompts"
    assert ends == {0.0005: ["settled"] * 4, 0.03: ["complete"] * 4}


def answer(variant: str, job: Job, load: int, step: float) -> RequestRecord:
    return RequestRecord(
        run="r",
        lane="exact",
        variant=variant,
        test_case=job.prompt.test_case,
        prompt_class="open",
        prompt=job.prompt.id,
        repeat=job.repeat,
        block=job.block,
        warmup=False,
        concurrency=load,
        sent_utc="",
        sent=1.0,
        outcome="ok",
        output_tokens=3,
        token_source="continuous-usage",
        chunk_times=(0.1, 0.1 + step, 0.1 + 2 * step),
        chunk_tokens=(1, 2, 3),
    )


def test_gauges_of_either_engine() -> None:
    page = (
        'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 1.0\n'
        'vllm:num_requests_waiting{engine="0"} 2.0\n'
        'vllm:request_queue_time_seconds_sum{engine="0"} 1.5\n'
        'vllm:request_queue_time_seconds_count{engine="0"} 10.0\n'
    )
    found = parse(page)
    assert found == Gauges(4.0, 2.0, (1.5, 10.0), None)
    assert parse("llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n") == Gauges(1, 0, None, None)
    assert parse("# nothing\nother_metric 1\n") is None
    assert mean_between((1.5, 10.0), (3.5, 14.0)) == 0.5
    assert mean_between((1.5, 10.0), (1.5, 10.0)) is None


def test_a_late_client_is_told() -> None:
    def point(**fields: float) -> Point:
        unit = "per second" if "latest_send_seconds" in fields else "in flight"
        return Point(
            variant="v", load=4.0, unit=unit, planned=1, sent=1, end="complete", seconds=1.0, **fields
        )

    assert not point(loop_lag_seconds=0.002).late
    assert point(loop_lag_seconds=0.02).late
    # Where the kernel tells when bytes came, a late client stays exact until it reads several at once.
    assert not point(loop_lag_seconds=0.02, blurred=0.001).late
    assert point(loop_lag_seconds=0.02, blurred=0.03).late
    assert point(loop_lag_seconds=0.5, blurred=0.0).late
    assert not point(latest_send_seconds=0.01).late
    assert point(latest_send_seconds=0.3).late


def test_bench_says_what_it_makes_of_loads(start: Start, tmp_path: Path) -> None:
    _, url = start(Settings(ttft=0.02, step=0.002))
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\ntwo\n", encoding="utf-8")
    arguments = ["--target", url, "--prompts", str(prompts), "--out", str(tmp_path), "--output-tokens", "4"]
    done = CliRunner().invoke(bench, [*arguments, "--load", "2,1,2"], standalone_mode=False)
    assert done.exit_code == 0, done.output
    assert "--load 2,1,2 is measured as 1,2" in done.output
    for wrong, said in (("0,1", "1 or more"), ("1.5", "whole"), ("a", "not a list"), ("", "not a list")):
        refused = CliRunner().invoke(bench, [*arguments, "--load", wrong])
        assert refused.exit_code == 2
        assert said in refused.output


EXPERIMENT = """
name = "loads"
regions = ["us-east-2"]

[placement.us-east-2]
zone = "us-east-2b"

[serving]
max_num_seqs = 4

[[variants]]
name = "baseline"
service = "plain"

[benchmark]
output_tokens = 4
{more}
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("loads = [1.0, 1.0]", "Write 1"),
        ("loads = [4.0, 1.0]", "Write 1, 4"),
        ("loads = [0.0, 1.0]", "1 or more"),
        ("loads = [1.0, 8.0]", "is more than the 4 sequences (max_num_seqs)"),
        ("concurrency = 8", "is more than the 4 sequences (max_num_seqs)"),
        ('prompts = "long"', "10004 tokens of the longest prompts of the set `long`"),
    ],
)
def test_an_experiment_with_wrong_loads_is_refused(more: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(EXPERIMENT.format(more=more), encoding="utf-8")
    with pytest.raises(BadInputError) as caught:
        load_experiment(path)
    assert said in str(caught.value)


def test_bench_measures_a_queue_and_says_so(start: Start, tmp_path: Path) -> None:
    _, url = start(Settings(ttft=0.02, step=0.002, max_num_seqs=4))
    path = tmp_path / "experiment.toml"
    path.write_text(EXPERIMENT.format(more="loads = [1.0, 4.0]"), encoding="utf-8")
    (tmp_path / "prompts.txt").write_text("one\ntwo\n", encoding="utf-8")
    arguments = ["--target", f"baseline={url}", "--experiment", str(path), "--out", str(tmp_path / "runs")]
    arguments += ["--prompts", str(tmp_path / "prompts.txt"), "--load", "1,8", "--repeats", "1"]
    done = CliRunner().invoke(bench, arguments, standalone_mode=False)
    assert done.exit_code == 0, done.output
    assert "more in flight than the 4 sequences (max_num_seqs)" in done.output
    manifest = read_run(next((tmp_path / "runs").iterdir())).manifest
    assert [(point.load, point.end) for point in manifest.points] == [(1.0, "complete"), (8.0, "complete")]
