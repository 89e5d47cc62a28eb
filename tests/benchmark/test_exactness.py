"""The client and the metrics against the golden server's own account, which shares no code with them."""

from dataclasses import replace
from statistics import mean, median
from typing import Any

import pytest

from specdec.benchmark.plan import Plan
from specdec.golden.server import GoldenServer
from specdec.golden.settings import Chunking, Settings, Usage
from specdec.golden.truth import Speculation, Truth, Uniform
from specdec.metrics.tokens_per_step import tokens_per_step
from specdec.metrics.tpot import tpot
from specdec.metrics.ttft import ttft
from specdec.runs.record import RequestRecord

from .conftest import MakePlan, Measure, Start

pytestmark = pytest.mark.alone

SPECULATIVE = Settings(ttft=0.05, step=0.04, per_step=Uniform(4, 8))


def pairs(server: GoldenServer, records: list[RequestRecord]) -> list[tuple[Truth, RequestRecord]]:
    """Truth and record of each request; both in order of sending."""
    return list(zip(server.truths, sorted(records, key=lambda record: record.sent), strict=True))


def errors(server: GoldenServer, records: list[RequestRecord]) -> tuple[float, float, float]:
    """Medians over requests: seconds of TTFT, share of TPOT, share of tokens per step by which the client is
    off.
    """
    both = pairs(server, records)
    return (
        median(abs((ttft(record) or 9) - (truth.ttft or 0)) for truth, record in both),
        median(abs((tpot(record) or 9) / (truth.tpot or 1) - 1) for truth, record in both),
        median(
            abs((tokens_per_step(record) or 9) / (truth.tokens_per_step or 1) - 1) for truth, record in both
        ),
    )


def exact(
    server: GoldenServer,
    plan: Plan,
    measure: Measure,
    limits: tuple[float, float, float] = (0.015, 0.02, 0.001),
) -> list[RequestRecord]:
    """Measures until the client agrees with the truth, five times at most; returns the last records.

    The tests share their machine with whatever else runs on it, and a core that is taken away shifts any
    clock. A client that miscounts is off every time.
    """
    found: list[tuple[float, float, float]] = []
    for attempt in range(5):
        server.truths.clear()
        _, records = measure(replace(plan, run=f"20261129T12000{attempt}Z-abcdef"))
        assert [record.outcome for record in records] == ["ok"] * len(records)
        found.append(errors(server, records))
        # Each number by itself: the moments at which one is disturbed need not be those of another.
        if all(min(errors) < limit for errors, limit in zip(zip(*found, strict=True), limits, strict=True)):
            return records
    raise AssertionError(f"TTFT s, TPOT, tokens per step off by {found}")


@pytest.mark.parametrize("chunking", ["step", "token", "split", "packed"])
@pytest.mark.parametrize("usage", ["continuous", "final", "timings", "none"])
def test_every_layout_gives_the_truth(
    chunking: Chunking, usage: Usage, start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    engine = "llamacpp" if usage == "timings" else "vllm"
    # Packed writes pause in mid-step; on a busy machine the pauses grow, and must stay short beside the step.
    step = 0.1 if chunking == "packed" else SPECULATIVE.step
    server, url = start(replace(SPECULATIVE, step=step, chunking=chunking, usage=usage, engine=engine))
    plan = make_plan({"fast": url}, output_tokens=41, count=6, concurrency=3)
    # Of a plain variant no event of several tokens would be believed without a count on it.
    fast = replace(plan.targets[0], role="speculative", window=7)
    records = exact(server, replace(plan, targets=(fast,)), measure)
    expected = {
        "continuous": "continuous-usage",
        "timings": "server-timings",
        "final": "final-usage",
        "none": "requested-length",
    }
    assert {(record.output_tokens, record.token_source) for record in records} == {(41, expected[usage])}


def test_merged_steps_keep_time_per_token(start: Start, make_plan: MakePlan, measure: Measure) -> None:
    server, url = start(replace(SPECULATIVE, per_step=Uniform(1, 1), chunking="merged", merge=2))
    records = exact(server, make_plan({"baseline": url}, output_tokens=21), measure, (0.015, 0.02, 99))
    # What the client cannot see it must not hide: a plain server that merges shows more than one token per
    # step.
    assert median(tokens_per_step(record) or 0 for record in records) == pytest.approx(2.0)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_counts(
    share: float, field: Any, start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    settings = replace(SPECULATIVE, reasoning=share, reasoning_field=field)
    server, url = start(settings)
    records = exact(server, make_plan({"baseline": url}, output_tokens=41, count=3), measure)
    assert {len(record.text.split()) for record in records} == {41}


@pytest.mark.parametrize(
    "settings",
    [
        {"line_end": "\r\n"},
        {"line_end": "\r"},
        {"comments": True},
        {"role_event": False},
        {"first_tokens": 5},
    ],
)
def test_wire_forms(settings: dict[str, object], start: Start, make_plan: MakePlan, measure: Measure) -> None:
    server, url = start(replace(SPECULATIVE, **settings))  # pyright: ignore[reportArgumentType]
    exact(server, make_plan({"baseline": url}, output_tokens=41, count=3), measure)


def test_completions_route(start: Start, make_plan: MakePlan, measure: Measure) -> None:
    server, url = start(SPECULATIVE)
    records = exact(
        server, make_plan({"baseline": url}, output_tokens=41, count=3, api="completions"), measure
    )
    assert {(record.output_tokens, record.thinking) for record in records} == {(41, None)}


@pytest.mark.parametrize(("convention", "expected"), [("textbook", 3.3616), ("nxdi-fused", 2.952)])
def test_both_conventions_yield_their_expected_length(
    convention: str, expected: float, start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    # a = 0.8, k = 4: (1 - 0.8^5) / 0.2 = 3.3616 with k + 1 tokens at most, (1 - 0.8^4) / 0.2 = 2.952 with k.
    speculation = Speculation(0.8, 4, convention)  # pyright: ignore[reportArgumentType]
    assert speculation.mean == pytest.approx(expected)
    server, url = start(Settings(ttft=0.0, step=0.001, per_step=speculation, request_metrics=True))
    manifest, records = measure(make_plan({"baseline": url}, output_tokens=1500, count=4))
    measured = mean(truth.tokens_per_step or 0 for truth in server.truths)
    assert measured == pytest.approx(expected, rel=0.03)
    counted = manifest.server_counters["baseline"]
    assert counted is not None
    assert 1 + counted["accepted_tokens"] / counted["drafts"] == pytest.approx(measured, rel=0.005)
    assert len(counted["accepted_per_position"]) == speculation.drafted
    for truth, record in pairs(server, records):
        assert record.server is not None
        assert record.server.drafts == len(truth.writes) - 1
        assert record.server.accepted_tokens == 1500 - len(truth.writes)


def test_sixty_four_streams(start: Start, make_plan: MakePlan, measure: Measure) -> None:
    server, url = start(replace(SPECULATIVE, ttft=0.2, step=0.036))
    # One process plays both sides here, so that time to first token is not the client's alone;
    # scripts/measure_client.py has it.
    plan = make_plan({"baseline": url}, count=64, output_tokens=61, concurrency=64)
    assert len(exact(server, plan, measure, (9, 0.02, 0.001))) == 64


def test_text_is_equal_until_told_otherwise(start: Start, make_plan: MakePlan, measure: Measure) -> None:
    _, plain = start(Settings(ttft=0.01, step=0.001))
    _, same = start(replace(SPECULATIVE, ttft=0.01, step=0.001))
    _, other = start(replace(SPECULATIVE, ttft=0.01, step=0.001, differs_at=20))
    _, records = measure(
        make_plan({"baseline": plain, "speculative": same, "broken": other}, output_tokens=40)
    )
    texts = {(record.variant, record.prompt): record.text for record in records}
    for prompt in ("p0", "p1", "p2", "p3"):
        assert texts["baseline", prompt] == texts["speculative", prompt] != texts["broken", prompt]
        assert texts["baseline", prompt].split()[:20] == texts["broken", prompt].split()[:20]


def test_the_token_clock_ignores_how_long_a_connection_takes(
    start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    server, url = start(SPECULATIVE)
    _, records = measure(make_plan({"baseline": url}, count=8, concurrency=8))
    reads = [truth.read for truth in server.truths]
    sent = sorted(record.sent for record in records)
    # Both clocks are this machine's: a request is read within milliseconds of being "sent".
    assert 0 <= median(read - send for read, send in zip(reads, sent, strict=True)) < 0.02
