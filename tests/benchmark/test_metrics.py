"""Each metric on numbers that can be checked by eye."""

import re
from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

from specdec.metrics import ALL, OF_RUN
from specdec.metrics.acceptance_length import acceptance_length
from specdec.metrics.e2e import e2e
from specdec.metrics.goodput import goodput
from specdec.metrics.itl import itl, itl_samples
from specdec.metrics.objective import Objective, objective_of
from specdec.metrics.of_run import loaded_seconds
from specdec.metrics.output_tokens import output_tokens
from specdec.metrics.request_throughput import request_throughput
from specdec.metrics.step_gap import step_gap
from specdec.metrics.steps import step_starts
from specdec.metrics.system_throughput import system_throughput
from specdec.metrics.tokens_per_step import tokens_per_step
from specdec.metrics.tpot import tpot
from specdec.metrics.ttft import ttft
from specdec.runs.record import RequestRecord, ServerSpeculation

Make = Callable[..., RequestRecord]

# One token at 0.2 s, then 4, 6 and 2 tokens at steps of 30, 30 and 60 ms.
CHUNKS: dict[str, object] = {
    "chunk_times": (0.2, 0.23, 0.26, 0.32),
    "chunk_tokens": (1, 5, 11, 13),
    "output_tokens": 13,
    "token_source": "continuous-usage",
}
# The same tokens, one event each, half a millisecond apart inside a step.
BURSTS: dict[str, object] = {
    "chunk_times": (
        0.2,
        *(0.23 + i * 0.0005 for i in range(4)),
        *(0.26 + i * 0.0005 for i in range(6)),
        0.32,
        0.3205,
    ),
    "chunk_tokens": tuple(range(1, 14)),
    "output_tokens": 13,
    "token_source": "continuous-usage",
}


def test_one_request(record: Make) -> None:
    request = record(**CHUNKS)
    assert ttft(request) == 0.2
    assert tpot(request) == pytest.approx(0.12 / 12)
    assert e2e(request) == 0.32
    assert step_gap(request) == pytest.approx(0.12 / 3)
    assert tokens_per_step(request) == pytest.approx(12 / 3)
    assert request_throughput(request) == pytest.approx(13 / 0.32)
    assert output_tokens(request) == 13
    # 4 tokens at 7.5 ms, 6 at 5 ms, 2 at 30 ms: sorted, the sixth and seventh of twelve are 5 and 7.5; the
    # lower is taken.
    assert [(round(value, 4), tokens) for value, tokens in itl_samples(request)] == [
        (0.0075, 4),
        (0.005, 6),
        (0.03, 2),
    ]
    assert itl(request) == pytest.approx(0.005)


def test_amortised_itl_has_tpot_as_its_mean(record: Make) -> None:
    request = record(**CHUNKS)
    samples = itl_samples(request)
    assert sum(value * tokens for value, tokens in samples) / sum(
        tokens for _, tokens in samples
    ) == pytest.approx(tpot(request))


def test_a_step_in_several_events_is_one_step(record: Make) -> None:
    request = record(**BURSTS)
    assert step_starts(request) == (0, 1, 5, 11)
    assert tokens_per_step(request) == pytest.approx(12 / 3)
    assert step_gap(request) == pytest.approx(0.04)


def test_steps_that_the_server_told_are_not_guessed_again(record: Make) -> None:
    request = record(**{**BURSTS, "token_source": "server-timings"})
    assert len(step_starts(request)) == 13


def test_a_chunk_of_several_told_steps(record: Make) -> None:
    request = record(
        chunk_times=(0.2, 0.26, 0.28),
        chunk_tokens=(1, 4, 5),
        chunk_steps=(1, 4, 5),
        output_tokens=5,
        token_source="server-timings",
    )
    assert tokens_per_step(request) == 1
    assert step_gap(request) == pytest.approx(0.02)


def test_one_token_per_event_is_one_per_step(record: Make) -> None:
    times = tuple(0.2 + 0.02 * i for i in range(50))
    assert tokens_per_step(record(chunk_times=times, chunk_tokens=tuple(range(1, 51)), output_tokens=50)) == 1
    # A pause of a whole second does not turn the other gaps into bursts.
    paused = (*times[:25], *(time + 1 for time in times[25:]))
    assert (
        tokens_per_step(record(chunk_times=paused, chunk_tokens=tuple(range(1, 51)), output_tokens=50)) == 1
    )


def test_chunks_of_several_tokens_are_steps_however_late_they_are_read(record: Make) -> None:
    # Six tokens a step, and a starved client that reads every second chunk together with the one before it.
    times = [0.2] + [0.2 + 0.04 * (1 + i // 2) + 0.0001 * (i % 2) for i in range(20)]
    assert (
        tokens_per_step(
            record(chunk_times=tuple(times), chunk_tokens=tuple(range(1, 122, 6)), output_tokens=121)
        )
        == 6
    )


def test_a_late_read_on_a_busy_machine_makes_no_burst(record: Make) -> None:
    times = [0.2 + 0.02 * i for i in range(50)]
    times[20] += 0.019
    assert (
        tokens_per_step(record(chunk_times=tuple(times), chunk_tokens=tuple(range(1, 51)), output_tokens=50))
        == 1
    )


def test_a_first_chunk_of_several_tokens_is_left_out(record: Make) -> None:
    request = record(chunk_times=(0.2, 0.23, 0.26), chunk_tokens=(6, 12, 18), output_tokens=18)
    assert tpot(request) == pytest.approx(0.06 / 12)
    assert tokens_per_step(request) == 6


def test_a_count_at_the_end_takes_the_first_chunk_for_one_token(record: Make) -> None:
    request = record(chunk_times=(0.2, 0.23, 0.26, 0.32), output_tokens=13, token_source="final-usage")
    assert tpot(request) == pytest.approx(0.12 / 12)
    assert tokens_per_step(request) == pytest.approx(4)
    assert itl(request) is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"chunk_times": (0.2,), "chunk_tokens": (1,), "output_tokens": 1},
        {"chunk_times": (0.2,), "chunk_tokens": (5,), "output_tokens": 5},
        {"chunk_times": (0.2, 0.3)},
        {"output_tokens": 0},
        {"server": ServerSpeculation(0, 0, 0, "x"), "output_tokens": 0},
        {"server": ServerSpeculation(None, 10, 5, "timings")},
    ],
)
def test_unknown_is_absent_and_never_zero(fields: dict[str, object], record: Make) -> None:
    request = record(**fields)
    for metric in ALL:
        value = metric.of(request)
        assert value is None or value > 0 or metric.name == "OutputTokens", metric.name
    assert (
        tpot(request),
        step_gap(request) if "chunk_times" not in fields else None,
        acceptance_length(request),
    ) == (None, None, None)


def test_acceptance_length_is_the_servers(record: Make) -> None:
    assert acceptance_length(
        record(server=ServerSpeculation(43, 129, 10, "metrics.speculative_decoding"))
    ) == pytest.approx(1 + 10 / 43)


def test_throughput_leaves_out_the_others_turns(record: Make) -> None:
    turns = [record(sent=start, **CHUNKS) for start in (0.0, 0.1, 100.0)]
    # 0 to 0.42 and 100 to 100.32.
    assert loaded_seconds(turns) == pytest.approx(0.74)
    assert system_throughput(turns) == pytest.approx(39 / 0.74)
    assert system_throughput([]) is None
    # One that failed took a second of the service and gave nothing.
    failed = record(sent=200.0, outcome="cut", **{**CHUNKS, "chunk_times": (0.2, 0.4, 0.6, 1.0)})
    assert system_throughput([*turns, failed]) == pytest.approx(39 / 1.74)


def test_goodput_counts_failures_as_not_good(record: Make) -> None:
    requests = [record(sent=float(i), outcome="ok" if i else "timeout", **CHUNKS) for i in range(4)]
    assert goodput(requests, Objective(ttft=0.2, tpot=0.01001)) == pytest.approx(3 / (4 * 0.32))
    assert goodput(requests, Objective(ttft=0.19)) == 0
    assert goodput(requests, Objective(ttft=None, tpot=None, e2e=0.32)) == pytest.approx(3 / (4 * 0.32))
    assert goodput([record()], Objective(ttft=1.0)) is None
    assert goodput(requests, None) is None


def test_an_objective_is_read_from_the_configuration(record: Make) -> None:
    assert objective_of({}) is None
    assert objective_of({"objective": {"ttft_ms": None, "tpot_ms": None, "share": 0.9}}) is None
    found = objective_of({"objective": {"ttft_ms": 800, "tpot_ms": 30.0, "share": 0.9}})
    assert found == Objective(ttft=0.8, tpot=0.03, share=0.9)
    assert found is not None
    assert found.words() == "90% with TTFT <= 800 ms and TPOT <= 30 ms"
    assert objective_of({"objective": found.plain()}) == found
    # TTFT 0.2 s and TPOT 10 ms: the larger share of its limit strains it.
    assert Objective(ttft=0.4, tpot=0.02).strain(record(**CHUNKS)) == pytest.approx(0.5)
    assert Objective(ttft=0.1, tpot=0.02).strain(record(**CHUNKS)) == pytest.approx(2.0)
    assert Objective(ttft=1.0).strain(record(outcome="cut", **CHUNKS)) == inf


def test_the_page_names_every_metric_as_the_code_does() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if re.match(r"^\| `[A-Z]", line)
    ]
    told = {row[0].strip("`"): (row[1], row[2], row[3].strip("`"), row[4]) for row in rows}
    assert told == {
        metric.name: (metric.symbol, metric.unit, metric.formula, metric.better) for metric in (*ALL, *OF_RUN)
    }


def test_names_are_unique_and_publishable() -> None:
    names = [metric.name for metric in (*ALL, *OF_RUN)]
    assert len(set(names)) == len(names)
    assert all(name.isalnum() and len(name) <= 255 for name in names)
