"""Runs that serve one variant after the other: brackets, drift, and what few phases can tell."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from specdec.analysis.judge import judge
from specdec.analysis.pairing import LogRatio, bracketed, log_ratios, pairs
from specdec.analysis.phases import degrees_of, evenly, phase_levels, share_of, shared_spread
from specdec.analysis.significance import ReadTogether, decide
from specdec.analysis.verdict import Comparison
from specdec.experiment.phases import phase_order
from specdec.metrics.tpot import TPOT
from specdec.runs.record import RequestRecord
from tests.analysis.simulate import manifest, record

STEP = 0.02
NAMES = ("baseline", "draft")
SEQUENTIAL = {"load": {"schedule": "sequential"}}


def run(
    repeats: int,
    *,
    speed: float = 1.0,
    drift: Callable[[int], float] = lambda _: 0.0,
    noise: float = 0.0,
    request: float = 0.005,
    cases: int = 3,
    prompts: int = 6,
    seed: int = 1,
    names: tuple[str, ...] = NAMES,
) -> list[RequestRecord]:
    """Records of a sequential run.

    Args:
        repeats: of the plan.
        speed: of every variant but the baseline.
        drift: logarithm of the machine's slowness in a phase.
        noise: standard deviation of the logarithm that a whole phase shares.
        request: the same of one request.
        cases, prompts: test cases, and prompts of each.
        seed: of the chance.
        names: of the variants.
    """
    chance = random.Random(seed)
    visits = [0] * len(names)
    found: list[RequestRecord] = []
    for phase, variant in enumerate(phase_order(len(names), repeats)):
        shared = drift(phase) + chance.gauss(0, noise)
        for number in range(cases * prompts):
            step = STEP / (speed if variant else 1.0) * math.exp(shared + chance.gauss(0, request))
            found.append(
                record(
                    names[variant],
                    f"p{number // cases}",
                    times=[0.1 + step * token for token in range(50)],
                    counts=list(range(1, 51)),
                    test_case=f"case-{number % cases}",
                    repeat=visits[variant],
                    block=1000 * phase + number,
                    phase=phase,
                    sent=3600.0 * phase + 10.0 * number,
                )
            )
        visits[variant] += 1
    return found


def compared(records: list[RequestRecord], names: tuple[str, ...] = NAMES) -> list[Comparison]:
    variants = {name: {"window": 3, "url": name} if number else {} for number, name in enumerate(names)}
    told = judge(manifest(variants, environment=SEQUENTIAL), records)
    return [row for row in told.comparisons if row.variant != names[0]]


def rows_of(records: list[RequestRecord]) -> list[tuple[LogRatio, ...]]:
    """The row of each test case."""
    of: dict[tuple[str, str], list[RequestRecord]] = {}
    for each in records:
        of.setdefault((each.test_case, each.variant), []).append(each)
    cases = dict.fromkeys(case for case, _ in of)
    return [log_ratios(bracketed(of[case, NAMES[0]], of[case, NAMES[1]]), TPOT.of) for case in cases]


def test_the_order_has_the_baseline_before_and_after_every_other() -> None:
    assert phase_order(2, 1) == (0, 1, 0)
    assert phase_order(2, 2) == (0, 1, 0, 1, 0)
    assert phase_order(3, 1) == (0, 1, 0, 2, 0)
    assert len(phase_order(4, 3)) == 2 * 3 * 3 + 1


@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_a_steady_drift_that_would_turn_a_plain_comparison_cancels(repeats: int) -> None:
    """The machine slows by a tenth with every phase, and the draft is worth 6%."""
    records = run(repeats, speed=1.06, drift=lambda phase: 0.1 * phase, request=1e-4)
    of = {name: [each for each in records if each.variant == name] for name in NAMES}
    plain = log_ratios(pairs(of["baseline"], of["draft"]), TPOT.of)
    assert math.exp(sum(ratio.value for ratio in plain) / len(plain)) < 1.0, (
        "repeat by repeat it looks slower"
    )
    for row in compared(records):
        assert row.tpot is not None
        assert row.tpot.value == pytest.approx(1.06, abs=0.002)
        # With one repeat the baseline's own change of a fifth is all that is known of chance.
        assert row.decision == ("undecided" if repeats == 1 else "helps")


def test_brackets_weigh_by_the_distance_in_time() -> None:
    before, after = (
        record("baseline", "p", times=[0.1, 1.0], counts=[1, 2], phase=phase, sent=sent, repeat=repeat)
        for phase, sent, repeat in ((0, 0.0, 0), (2, 100.0, 1))
    )
    late = record("draft", "p", times=[0.1, 1.0], counts=[1, 2], phase=1, sent=75.0)
    first, second = bracketed([before, after], [late])
    assert (first.weight, second.weight) == (pytest.approx(0.25), pytest.approx(0.75))
    assert (first.phases, second.phases) == ((0, 1), (2, 1))
    assert bracketed([before], [late]) == (), "what stands at an end has no bracket"


def test_a_request_with_one_baseline_alone_is_left_out() -> None:
    records = run(1, cases=1, prompts=4)
    broken = [each for each in records if not (each.phase == 2 and each.prompt == "p0")]
    (row,) = rows_of(broken)
    assert {ratio.prompt[1] for ratio in row} == {"p1", "p2", "p3"}


@pytest.mark.parametrize("repeats", [1, 2, 3, 5])
def test_the_share_and_the_degrees_are_those_of_the_design(repeats: int) -> None:
    records = run(repeats, cases=1)
    (row,) = rows_of(records)
    assert share_of(row) == pytest.approx(evenly(repeats), rel=1e-3)
    spread = shared_spread([row])
    assert spread is not None
    assert spread.degrees == degrees_of(repeats)


@pytest.mark.parametrize("repeats", [2, 4])
def test_the_variance_of_phases_is_found_whatever_the_drift(repeats: int) -> None:
    estimates: list[float] = []
    for seed in range(60):
        records = run(
            repeats, noise=0.02, request=0.0, drift=lambda phase: -0.07 * phase, cases=1, prompts=3, seed=seed
        )
        spread = shared_spread(rows_of(records))
        assert spread is not None
        estimates.append(spread.variance)
    # The mean of 60 estimates of 2 or 6 degrees of freedom: a standard error of 13% or 7%.
    assert sum(estimates) / len(estimates) == pytest.approx(0.02**2, rel=0.4)


@pytest.mark.parametrize(("repeats", "noise"), [(1, 0.02), (2, 0.02), (3, 0.1)])
def test_two_equal_services_are_seldom_called_different(repeats: int, noise: float) -> None:
    """A phase that differs from the next by chance is no effect: at the joint level, 2 of 100 reports."""

    def differs(seed: int) -> bool:
        records = run(repeats, noise=noise, drift=lambda phase: 0.03 * phase, cases=2, prompts=4, seed=seed)
        rows = [(NAMES, row) for row in rows_of(records)]
        known = ReadTogether.of(rows)
        ratios = [known.ratio(*row) for row in rows]
        return any(decide(ratio.interval if ratio else None) in ("helps", "hurts") for ratio in ratios)

    assert sum(map(differs, range(60))) <= 4


def test_three_repeats_show_what_one_cannot() -> None:
    (one, *_), (three, *_) = (compared(run(repeats, speed=1.3, noise=0.02, seed=3)) for repeats in (1, 3))
    assert one.decision == "undecided"
    assert three.decision == "helps"
    assert one.tpot is not None
    assert one.tpot.more_repeats
    assert f"about {one.tpot.more_repeats} more repeat" in one.says
    assert one.tpot.more_prompts is None, "more prompts would not help"


def test_two_drafts_have_their_own_brackets() -> None:
    names = ("baseline", "first", "second")
    records = run(2, speed=1.2, drift=lambda phase: 0.05 * phase, request=1e-4, names=names)
    rows = compared(records, names)
    assert {row.variant for row in rows} == {"first", "second"}
    for row in rows:
        assert row.tpot is not None
        assert row.tpot.value == pytest.approx(1.2, abs=0.005)
        assert row.decision == "helps"


def test_the_report_says_the_order_and_how_far_the_baseline_moved() -> None:
    records = run(1, speed=1.2, drift=lambda phase: 0.02 * phase, request=1e-5)
    levels = phase_levels(records)
    assert [level.variant for level in levels] == ["baseline", "draft", "baseline"]
    assert levels[2].against_first == pytest.approx(math.exp(0.04), rel=1e-3)
    assert levels[1].minutes == pytest.approx(60 + levels[0].minutes, abs=1)
    variants = {"baseline": {}, "draft": {"window": 3, "url": "draft"}}
    said = judge(manifest(variants, environment=SEQUENTIAL), records).caveats
    assert any("changed by up to 4.1%" in words for words in said)
    assert any("drift and chance cannot be told apart" in words for words in said)
