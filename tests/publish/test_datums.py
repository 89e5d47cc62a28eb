from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec.errors import SpecdecError
from specdec.metrics import ALL
from specdec.metrics.tpot import TPOT
from specdec.publish import datums, series
from specdec.publish.datums import Datum
from specdec.runs.manifest import RunManifest
from specdec.runs.record import SELF_CHECK, ServerSpeculation
from tests.publish.runs import NOW, record, utc

PLACE = (series.FAILED_RUNS, ("exp",), NOW)


def manifest(status: str = "complete") -> RunManifest:
    return RunManifest(
        run="r",
        status=status,  # pyright: ignore[reportArgumentType]
        experiment="exp",
        configuration={},
        configuration_hash="0",
        started_utc=utc(NOW),
        ended_utc=utc(NOW),
        environment={},
        variants={"baseline": {"role": "baseline"}, "speculative": {"role": "speculative"}},
        counts={},
        server_counters={},
        records_sha256="",
    )


def by_name(found: list[Datum]) -> dict[tuple[str, tuple[str, ...]], Datum]:
    return {(one.series.name, one.dimensions): one for one in found}


def test_equal_values_of_a_minute_become_one_distribution_and_another_minute_another() -> None:
    records = [
        record(step=0.25),
        record(step=0.25, prompt="b"),
        record(step=0.5, prompt="c"),
        record(step=0.5, at=NOW + timedelta(minutes=1), prompt="d"),
    ]
    found = [
        one
        for one in datums.of_run(manifest(), records, [TPOT], experiment="exp")
        if one.series.name == TPOT.name
    ]
    assert [(one.values, one.counts) for one in found] == [((0.25, 0.5), (2, 1)), ((0.5,), (1,))]
    assert found[0].timestamp == NOW.replace(second=0)
    assert found[0].dimensions == ("exp", "baseline", "count")


def test_the_baselines_second_arm_is_not_published() -> None:
    records = [record(step=0.25), record(step=0.25, variant="speculative")]
    again = [record(step=9.0, lane=SELF_CHECK), record(lane=SELF_CHECK, outcome="timeout")]
    bare, checked = (
        list(datums.of_run(manifest(), sent, ALL, experiment="exp")) for sent in (records, [*records, *again])
    )
    assert checked == bare


def test_what_was_not_measured_is_absent_and_not_zero() -> None:
    records = [
        record(chunk_tokens=None, output_tokens=None, token_source="none"),
        record(warmup=True),
        record(outcome="timeout"),
        record(lane="llmperf"),
    ]
    found = datums.of_run(manifest(), records, [TPOT], experiment="exp")
    assert not [one for one in found if one.series.name == TPOT.name]
    requests = {one.dimensions[2]: one.values for one in found if one.series is series.REQUESTS}
    assert requests == {"ok": (2.0,), "timeout": (1.0,)}, "warm-up is not counted, failures are"


def test_parity_compares_pairs_at_temperature_zero_only() -> None:
    records = [
        record(text="a"),
        record(text="b", prompt="p2"),
        record("speculative", text="a"),
        record("speculative", text="x", prompt="p2"),
        record("speculative", text="x", prompt="no-partner"),
        record(case="hot", temperature=0.7, text="a"),
        record("speculative", case="hot", temperature=0.7, text="b"),
    ]
    assert list(datums.parity(manifest(), records)) == [("speculative", "count", 50.0)]


@pytest.mark.parametrize(("status", "value"), [("complete", 0.0), ("failed", 1.0), ("interrupted", 1.0)])
def test_a_run_that_did_not_complete_counts_as_failed(status: str, value: float) -> None:
    found = by_name(datums.of_run(manifest(status), [record()], [TPOT], experiment="exp"))
    assert found["FailedRuns", ("exp",)].values == (value,)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2.0**361, 2.0**-361])
def test_numbers_that_cloudwatch_does_not_take_are_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match="SpecDec/Run FailedRuns of exp"):
        list(datums.distributions([(*PLACE, value)]))


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=700))
def test_distributions_keep_every_value_within_the_limit_of_a_datum(values: list[float]) -> None:
    parts = list(datums.distributions([(*PLACE, value) for value in values]))
    assert all(len(part.values) <= datums.MAX_VALUES for part in parts)
    back = sorted(
        value
        for part in parts
        for value, count in zip(part.values, part.counts, strict=True)
        for _ in range(count)
    )
    assert back == sorted(values)
    assert len({part.key("r") for part in parts}) == len(parts)


def many(count: int, width: int) -> Iterator[Datum]:
    for minute in range(count):
        at = NOW.replace(second=0) + timedelta(minutes=minute)
        yield Datum(
            series.FAILED_RUNS,
            ("exp",),
            at,
            tuple(0.123456789 + index / 7 for index in range(width)),
            (1,) * width,
        )


def test_batches_keep_both_limits_and_lose_nothing() -> None:
    small = list(datums.batches(many(2500, 1)))
    assert [len(batch) for batch in small] == [1000, 1000, 500]
    wide = list(datums.batches(many(700, 150)))
    assert len(wide) > 1
    assert all(sum(one.size() for one in batch) < datums.MAX_BYTES for batch in wide)
    assert sum(map(len, wide)) == 700


def test_a_batch_has_one_namespace_and_all_parts_of_a_time() -> None:
    two = [
        *many(1, 1),
        dataclasses.replace(next(many(1, 1)), series=series.LLMPERF_TTFT, dimensions=("v", "c")),
    ]
    assert [{one.series.namespace for one in batch} for batch in datums.batches(two)] == [
        {"SpecDec/Run"},
        {"Qwen/LLMPerf"},
    ]


def test_an_old_run_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(SpecdecError, match="15 days old"):
        datums.refuse_too_old(many(1, 1), NOW + timedelta(days=15))


def test_the_metrics_that_are_paid_for_are_those_that_a_run_publishes() -> None:
    cases = ("count", "story", "json")
    told = ServerSpeculation(drafts=2, draft_tokens=6, accepted_tokens=3, source="test")
    records = [
        record(variant, case, server=told) for variant in ("baseline", "speculative") for case in cases
    ]
    published = {
        (one.series, one.dimensions) for one in datums.of_run(manifest(), records, ALL, experiment="exp")
    }
    assert len(published) == series.emitted(variants=2, test_cases=len(cases), llmperf_cases=0)
    # Three loads and an objective.
    held = [dataclasses.replace(one, concurrency=load) for one in records for load in (1, 2, 4)]
    whole = dataclasses.replace(manifest(), configuration={"objective": {"ttft_ms": 800}})
    published = {(one.series, one.dimensions) for one in datums.of_run(whole, held, ALL, experiment="exp")}
    assert len(published) == series.emitted(
        variants=2, test_cases=len(cases), llmperf_cases=0, objective=True, loads=3
    )


def test_series_without_a_load_are_about_the_lowest_one() -> None:
    records = [dataclasses.replace(record("baseline", "story"), concurrency=load) for load in (4, 1, 2)]
    found = datums.of_run(manifest(), records, [TPOT], experiment="exp")
    plain = [one for one in found if one.series.name == "TimePerOutputToken" and len(one.dimensions) == 3]
    assert sum(sum(one.counts) for one in plain) == 1
    by_load = {one.dimensions[-1] for one in found if one.series.dimensions[-1] == "Load"}
    assert by_load == {"1", "2", "4"}


def test_metrics_of_the_llmperf_lane_are_paid_for_each_of_its_cases() -> None:
    without = series.emitted(variants=3, test_cases=5, llmperf_cases=0)
    assert series.emitted(variants=3, test_cases=5, llmperf_cases=8) - without == 3 * 8 * len(series.LLMPERF)
