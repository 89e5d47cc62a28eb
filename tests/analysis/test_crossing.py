"""Crossings and carried load on lines whose truth is known."""

from math import exp, inf, log

import pytest

from specdec.analysis.capacity import (
    carried,
    interval,
    quantile,
    requests_per_second,
    resampled_strains,
)
from specdec.analysis.crossing import crossings
from specdec.analysis.verdict import Interval, PairedRatio
from specdec.golden.truth import batch_tpot, crossing
from specdec.metrics.system_throughput import system_throughput

from .simulate import record


def ratio(value: float, half: float = 0.05) -> PairedRatio:
    ends = Interval(value * exp(-half), value * exp(half), 0.98)
    return PairedRatio(value=value, interval=ends, prompts=8, pairs=16, needed_prompts=None, more_prompts=0)


def test_the_crossing_of_two_lines_is_found_with_an_interval_around_it() -> None:
    plain, drafted, tokens = (0.040, 0.0005), (0.060, 0.012), 3.0

    def at(load: float) -> PairedRatio:
        base = batch_tpot(load, step=plain[0], batch_step=plain[1], tokens_per_step=1)
        own = batch_tpot(load, step=drafted[0], batch_step=drafted[1], tokens_per_step=tokens)
        return ratio(base / own)

    (found,) = crossings((1, 2, 4, 8, 16), at)
    truth = crossing(plain, drafted, tokens)
    assert truth is not None
    assert found.load == pytest.approx(truth, rel=0.001)
    assert found.downward
    assert found.low < truth < found.high
    # The interval holds exactly the loads at which the ratio's own interval holds 1.
    assert log(at(found.low).value) == pytest.approx(0.05, abs=0.002)
    assert log(at(found.high).value) == pytest.approx(-0.05, abs=0.002)


@pytest.mark.parametrize("values", [(1.5, 1.4, 1.3), (0.9, 0.8, 0.7), (1.01, 0.99, 1.02), (1.5, 1.01, 1.0)])
def test_no_crossing_is_told_where_one_side_is_not(values: tuple[float, ...]) -> None:
    loads = (1.0, 2.0, 4.0)
    assert crossings(loads, lambda load: ratio(values[loads.index(load)])) == ()


def test_several_crossings_are_an_answer() -> None:
    loads, values = (1.0, 2.0, 4.0, 8.0), (1.5, 0.7, 0.98, 1.4)

    def at(load: float) -> PairedRatio:
        below = max(known for known in loads if known <= load)
        above = min(known for known in loads if known >= load)
        part = 0.0 if below == above else (load - below) / (above - below)
        low, high = values[loads.index(below)], values[loads.index(above)]
        return ratio(low + (high - low) * part)

    down, up = crossings(loads, at)
    assert (down.downward, up.downward) == (True, False)
    assert 1 < down.load < 2
    # 4 itself is undecided: the interval goes over it.
    assert up.low < 4 < up.load < up.high < 8


def test_a_quantile_is_a_value_that_the_share_keeps() -> None:
    values = [float(i) for i in range(1, 21)]
    assert quantile(values, 0.95) == 19
    assert quantile(values, 1.0) == 20
    assert quantile(values, 0.01) == 1
    assert quantile([2.0], 0.95) == 2


def test_carried_load() -> None:
    assert carried((1, 2, 4), (0.5, 0.8, 1.6)) == (pytest.approx(2.5), False)
    assert carried((1, 2, 4), (0.5, 0.8, 0.9)) == (4, True)
    assert carried((1, 2, 4), (1.2, 0.8, 0.9)) == (None, False)
    # Requests failed at 4: nothing tells where between 2 and 4 that begins.
    assert carried((1, 2, 4), (0.5, 0.8, inf)) == (2, False)
    # What a higher load keeps again does not count.
    assert carried((1, 2, 4), (0.5, 1.5, 0.9)) == (pytest.approx(1.5), False)


def test_few_prompts_widen_the_interval_of_a_capacity() -> None:
    draws = [float(i) for i in range(1000)]
    few, many = interval(draws, 4, level=0.9), interval(draws, 400, level=0.9)
    assert few is not None
    assert many is not None
    assert few[0] < many[0]
    assert many == (pytest.approx(50, abs=2), pytest.approx(949, abs=2))
    assert interval(draws, 2, level=0.9) is None
    assert interval([None] * 10, 8, level=0.9) is None


def test_resampling_pairs_the_variants() -> None:
    # Each prompt strains the second server twice as much at every load: its capacity in every draw is less.
    plain = {load: {f"p{i}": [load * (0.1 + 0.01 * i)] for i in range(6)} for load in (1.0, 4.0, 16.0)}
    heavy = {
        load: {p: [2 * v for v in values] for p, values in point.items()} for load, point in plain.items()
    }
    drawn = resampled_strains((1.0, 4.0, 16.0), {"plain": plain, "heavy": heavy}, 0.95, draws=200)
    for own, other in zip(drawn["heavy"], drawn["plain"], strict=True):
        assert own is not None
        assert other is not None
        assert own < other


def test_throughput_counts_what_kept_the_load_up() -> None:
    measured = record("v", "p0", times=[0.1, 1.0], counts=[1, 10])
    slow = record("v", "p1", times=[0.1, 1.0, 2.0], counts=[1, 10, 20])
    filler = record("v", "p0", times=[0.5, 1.0, 3.0], counts=[1, 6, 30], sent=1.0, warmup=True)
    # Up to 2 s: ten, twenty, and the six of the filler that had come by then.
    assert system_throughput([measured, slow, filler]) == pytest.approx((10 + 20 + 6) / 2)
    assert requests_per_second([measured, slow, filler]) == pytest.approx(18 / 15)
    assert system_throughput([filler]) is None
