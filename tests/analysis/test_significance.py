"""Intervals and decisions: against tables, and against services that are the same or differ by a known
share.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from math import log

import pytest

from specdec.analysis.moderation import NOTHING_COMMON, common_spread
from specdec.analysis.pairing import LogRatio
from specdec.analysis.significance import ReadTogether, decide, paired_ratio
from specdec.analysis.verdict import Interval, PairedRatio

Clusters = tuple[LogRatio, ...]


def apart(prompts: Iterable[Sequence[float]]) -> Clusters:
    values = [(number, value) for number, repeats in enumerate(prompts) for value in repeats]
    return tuple(LogRatio(("case", str(p)), block, value) for block, (p, value) in enumerate(values))


def clusters(chance: random.Random, *, prompts: int, effect: float = 0.0, spread: float = 0.03) -> Clusters:
    """Pairs that ran alone, each a block of its own."""
    return apart([chance.gauss(effect, spread)] for _ in range(prompts))


def ratio(values: Clusters, **more: float) -> PairedRatio:
    found = paired_ratio(values, **({"level": 0.98} | more))  # pyright: ignore[reportArgumentType]
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("spreads", [[0.03] * 8, [0.01, 0.01, 0.02, 0.02, 0.04, 0.04, 0.08, 0.08]])
@pytest.mark.parametrize("prompts", [4, 8])
def test_identical_services_are_not_told_apart(spreads: list[float], prompts: int) -> None:
    chance = random.Random(11)
    quiet = 0
    for _ in range(200):
        rows = [clusters(chance, prompts=prompts, spread=spread) for spread in spreads]
        known = ReadTogether.of([("fast", row) for row in rows])
        found = [known.ratio("fast", row) for row in rows]
        quiet += all(decide(row.interval if row else None) in ("no difference", "undecided") for row in found)
    # 95 of 100, over 200 runs of eight test cases each.
    assert quiet >= 190


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.02, 0.06])
def test_a_true_five_percent_is_found_at_the_recommended_size(spread: float) -> None:
    chance = random.Random(5)
    found = 0
    for _ in range(100):
        pilot = ratio(clusters(chance, prompts=6, spread=spread, effect=log(1.05)))
        assert pilot.needed_prompts is not None
        run = ratio(clusters(chance, prompts=pilot.needed_prompts, spread=spread, effect=log(1.05)))
        found += decide(run.interval) == "helps"
    assert found >= 85


def test_recommended_size_lets_identical_services_be_called_so() -> None:
    chance = random.Random(6)
    pilot = ratio(clusters(chance, prompts=8, spread=0.04))
    assert pilot.needed_prompts is not None
    assert (
        decide(ratio(clusters(chance, prompts=2 * pilot.needed_prompts, spread=0.04)).interval)
        == "no difference"
    )


def test_too_few_prompts_are_said() -> None:
    few = ratio(apart([[0.7, 0.7], [0.71]]))
    assert few.interval is None
    assert few.more_prompts == 1
    assert (few.prompts, few.pairs) == (2, 3)
    assert decide(few.interval) == "undecided"


def test_repeats_do_not_count_as_prompts() -> None:
    once = ratio(apart([[0.5], [0.6], [0.8]]))
    ten = ratio(apart([v] * 10 for v in (0.5, 0.6, 0.8)))
    assert once.interval == ten.interval
    assert ten.pairs == 30


def test_same_run_same_interval() -> None:
    values = clusters(random.Random(1), prompts=7)
    assert ratio(values) == ratio(values)


@pytest.mark.parametrize(
    ("low", "high", "decision"),
    [
        (1.01, 2.0, "helps"),
        (0.5, 0.99, "hurts"),
        (0.97, 1.03, "no difference"),
        (1.001, 1.003, "no difference"),
        (0.98, 0.99, "no difference"),
        (1.01, 1.04, "no difference"),
        (0.9, 1.03, "undecided"),
        (0.97, 1.2, "undecided"),
    ],
)
def test_decisions(low: float, high: float, decision: str) -> None:
    assert decide(Interval(low, high, 0.98)) == decision


def test_undecided_says_how_many_more() -> None:
    values = apart([v] for v in (-0.2, 0.2, -0.1, 0.15))
    found = ratio(values)
    assert decide(found.interval) == "undecided"
    assert found.more_prompts is not None
    assert found.more_prompts > 0


def test_two_rows_have_nothing_in_common() -> None:
    chance = random.Random(3)
    assert common_spread([clusters(chance, prompts=4), clusters(chance, prompts=4)]) == NOTHING_COMMON


def test_rows_of_one_spread_share_it() -> None:
    chance = random.Random(3)
    common = common_spread([clusters(chance, prompts=4, spread=0.1) for _ in range(30)])
    assert common.variance == pytest.approx(0.01, rel=0.4)
    assert common.degrees > 10
