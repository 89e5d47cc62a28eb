"""The noise floor: what it is made of, and which verdicts it holds back."""

import random
from collections import Counter
from dataclasses import replace
from itertools import count

import pytest

from scripts.prove_verdict import decisions
from specdec.analysis.judge import judge
from specdec.analysis.self_check import self_check, settled
from specdec.analysis.self_check_verdict import SelfCheck
from specdec.analysis.significance import decide
from specdec.analysis.verdict import Interval, PairedRatio
from specdec.runs.record import SELF_CHECK, RequestRecord
from tests.analysis import simulate
from tests.analysis.noise import Design, Disturbance, run


def ratio(value: float, low: float, high: float) -> PairedRatio:
    return PairedRatio(
        value=value,
        interval=Interval(low, high, 0.99),
        prompts=8,
        pairs=8,
        needed_prompts=None,
        more_prompts=None,
    )


def checked(floor: float | None, *, differs: bool = False) -> SelfCheck:
    return SelfCheck(baseline="b", requests=8, ok=8, tpot=None, floor=floor, differs=differs, says="")


@pytest.mark.parametrize(
    ("row", "check", "repeats", "said"),
    [
        (ratio(1.10, 1.06, 1.14), None, None, "helps"),
        (ratio(1.10, 1.06, 1.14), checked(None), None, "helps"),
        (ratio(1.10, 1.06, 1.14), checked(1.09), None, "helps"),
        (ratio(1.10, 1.06, 1.14), checked(1.11), None, "undecided"),
        (ratio(1.10, 1.06, 1.14), checked(1.02), 1.11, "undecided"),
        (ratio(0.90, 0.86, 0.94), checked(1.09), None, "hurts"),
        (ratio(0.90, 0.86, 0.94), checked(1.12), None, "undecided"),
        # Where equal things surely differ, the nearer end counts.
        (ratio(1.10, 1.06, 1.14), checked(1.07, differs=True), None, "undecided"),
        (ratio(1.10, 1.06, 1.14), checked(1.05, differs=True), None, "helps"),
        (ratio(0.90, 0.86, 0.94), checked(1.07, differs=True), None, "undecided"),
        (ratio(0.90, 0.86, 0.94), checked(1.06, differs=True), None, "hurts"),
        # Nothing is called equal that may differ by more than the margin.
        (ratio(1.01, 0.98, 1.03), checked(1.04), None, "no difference"),
        (ratio(1.01, 0.98, 1.03), checked(1.06), None, "undecided"),
        (ratio(1.01, 0.98, 1.03), checked(1.02), 1.2, "no difference"),
        (ratio(1.10, 0.90, 1.30), checked(1.02), None, "undecided"),
        (None, checked(1.02), None, "undecided"),
    ],
)
def test_a_verdict_within_the_floor_is_undecided(
    row: PairedRatio | None, check: SelfCheck | None, repeats: float | None, said: str
) -> None:
    assert settled(row, check, repeats) == said


def arm(factor: float, prompts: int = 8, *, each: int = 1, lane: str = "exact") -> list[RequestRecord]:
    numbers = count()
    return [
        simulate.record(
            "baseline",
            f"p{prompt}",
            times=(0.2, 0.2 + 4.0 * factor * (1 + 0.002 * (prompt % 3) * (lane == SELF_CHECK))),
            counts=(1, 101),
            block=next(numbers) // each,
            lane=lane,
        )
        for prompt in range(prompts)
    ]


def test_the_floor_is_the_farther_end_of_the_interval() -> None:
    check = self_check("baseline", arm(1.0), arm(1.1, lane=SELF_CHECK))
    assert check is not None
    assert check.tpot is not None
    assert check.tpot.interval is not None
    assert check.tpot.value == pytest.approx(1 / 1.1, rel=0.005)
    assert check.floor == pytest.approx(1 / check.tpot.interval.low)
    assert check.differs
    assert "makes equal things differ" in check.says
    even = self_check("baseline", arm(1.0), arm(1.0, lane=SELF_CHECK))
    assert even is not None
    assert even.floor is not None
    assert 1 < even.floor < 1.01
    assert f"up to {even.floor - 1:.1%} may be noise" in even.says


def test_without_a_second_arm_nothing_is_said() -> None:
    assert self_check("baseline", arm(1.0), []) is None


@pytest.mark.parametrize(
    ("prompts", "each", "words"),
    [(2, 1, "too few prompts to tell the noise floor"), (4, 4, "too few blocks to tell the noise floor")],
)
def test_too_little_of_it_has_no_floor(prompts: int, each: int, words: str) -> None:
    check = self_check(
        "baseline", arm(1.0, prompts, each=each), arm(1.0, prompts, each=each, lane=SELF_CHECK)
    )
    assert check is not None
    assert check.floor is None
    assert words in check.says


def test_a_pair_that_differs_in_more_is_left_out() -> None:
    other = [replace(record, prompt_tokens=9) for record in arm(3.0, lane=SELF_CHECK)]
    check = self_check("baseline", [replace(record, prompt_tokens=8) for record in arm(1.0)], other)
    assert check is not None
    assert check.tpot is None


def test_the_report_says_what_the_floor_holds_back() -> None:
    """A run of two services of which one is 7% slower for its connections alone."""
    from tests.analysis.test_gates import VARIANTS

    records = run(random.Random(4), Disturbance(later=0.07), Design(self_check=0.25))
    verdict = judge(simulate.manifest(VARIANTS), records)
    assert verdict.self_check is not None
    assert verdict.self_check.differs
    assert verdict.self_check.says[1:] in verdict.caveats[0]
    assert len(verdict.comparisons) == 8
    for row in verdict.comparisons:
        assert row.decision == "undecided"
        assert row.tpot is not None
        assert decide(row.tpot.interval) == "hurts"
        assert "within noise" in [reason.code for reason in row.reasons]
        assert row.floor == verdict.self_check.floor
    alone = judge(simulate.manifest(VARIANTS), [record for record in records if record.lane != SELF_CHECK])
    assert {row.decision for row in alone.comparisons} == {"hurts"}


@pytest.mark.parametrize(
    ("disturbance", "design"),
    [
        (Disturbance(later=0.07), Design()),
        (Disturbance(later=0.15, block=0.01), Design(repeats=1, prompts=8)),
        (Disturbance(fresh=0.08), Design()),
        (Disturbance(drift=0.7), Design(repeats=1, prompts=8)),
        (Disturbance(minute=0.7), Design()),
    ],
    ids=[
        "later connections",
        "later connections, one repeat",
        "fresh connections",
        "degrades",
        "a bad minute",
    ],
)
def test_what_befalls_a_whole_run_is_no_verdict(disturbance: Disturbance, design: Design) -> None:
    reports = [list(decisions(random.Random(seed), disturbance, design)) for seed in range(12)]
    wrong = sum(any(said in ("helps", "hurts") for _, said in rows) for rows in reports)
    assert wrong <= 1
    if disturbance.later:
        assert sum(any(said == "hurts" for said, _ in rows) for rows in reports) > 6


def test_a_true_difference_is_still_seen() -> None:
    design = Design(prompts=8, effects=(0.0953,))
    rows = [
        row
        for seed in range(8)
        for row in decisions(random.Random(seed), Disturbance(request=0.03, prompt=0.03), design)
    ]
    said = Counter(said for _, said in rows)
    assert said["helps"] > 0.8 * len(rows)
