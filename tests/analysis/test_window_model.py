"""The window model against simulated services whose acceptance and cost are known."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scripts.tune_proof import COSTS, KINDS, outcomes, walk
from specdec.analysis.choice import CLOSE, Measured, advise
from specdec.analysis.constant_acceptance import acceptance_for, best_speedup, break_even, constant_tokens
from specdec.analysis.observation import Observation, observe
from specdec.analysis.replay import UNKNOWN, counted_steps, local_rate, reveal, runs, steps
from specdec.analysis.step_cost import bucket, fit_cost
from specdec.analysis.window_model import LARGEST, Model, fit
from specdec.catalog.conventions import NXDI_FUSED, TEXTBOOK, Convention
from tests.analysis.simulate import PLAIN_STEP, service

pytestmark = pytest.mark.slow


def observation(
    convention: Convention,
    *,
    a: float,
    c: float,
    f: float = 0.0,
    window: int = 7,
    seed: int = 1,
    prompts: int = 8,
) -> Observation:
    def acceptance(_position: int) -> float:
        return a

    def cost(k: int) -> float:
        return 1 + f + c * k

    base = service("baseline", prompts=prompts, seed=seed)
    fast = service(
        "fast",
        prompts=prompts,
        seed=seed,
        window=window,
        wasted=convention.wasted,
        acceptance=acceptance,
        cost=cost,
        tokens=600,
    )
    found = observe(base, fast, convention=convention, window=window)
    assert found is not None
    return found


def true_tpot(convention: Convention, window: int, *, a: float, c: float) -> float:
    # Written out as a sum of powers, apart from the code under test: 1 + a + ... + a^d.
    tokens = sum(a**i for i in range(window - convention.wasted + 1))
    return PLAIN_STEP * (1 + c * window) / tokens


@pytest.mark.parametrize("convention", [TEXTBOOK, NXDI_FUSED])
@pytest.mark.parametrize(("a", "c"), [(0.5, 0.05), (0.7, 0.1), (0.9, 0.19), (0.97, 0.3)])
def test_recovers_acceptance_and_cost(convention: Convention, a: float, c: float) -> None:
    model = fit([observation(convention, a=a, c=c)], convention, draws=0)
    assert model.rate == pytest.approx(a, abs=0.03)
    assert model.slope == pytest.approx(c, abs=0.01)
    assert model.baseline[0] == pytest.approx(PLAIN_STEP, rel=0.01)
    assert model.undrafted == 0


def test_names_the_best_window() -> None:
    # Textbook, a = 0.8, c = 0.1: the best window is 6 at 2.47 times (docs/window.md).
    model = fit([observation(TEXTBOOK, a=0.8, c=0.1, window=9)], TEXTBOOK)
    advice = advise(Measured(("fast",), None, (9,)), [model], test_case="case", tpots={})
    assert advice.recommended in (5, 6, 7)
    assert advice.predicted_speedup == pytest.approx(2.47, rel=0.04)


def test_off_is_an_answer() -> None:
    model = fit([observation(NXDI_FUSED, a=0.2, c=0.19)], NXDI_FUSED)
    advice = advise(Measured(("fast",), None, (7,)), [model], test_case="case", tpots={})
    assert advice.recommended is None
    assert advice.predicted_speedup == 1.0
    assert advice.confirm is None
    assert "leave speculation off" in advice.says


@pytest.mark.slow
def test_one_window_is_enough_in_200_random_cases() -> None:
    chance = random.Random(7)
    losses: list[float] = []
    for number in range(200):
        convention = chance.choice([TEXTBOOK, NXDI_FUSED])
        a, c = chance.uniform(0.3, 0.97), chance.uniform(0.02, 0.4)
        window = chance.choice([5, 6, 7, 8])
        seen = observation(convention, a=a, c=c, window=window, seed=number, prompts=6)
        curve = fit([seen], convention, draws=0).curve()[0]
        windows = range(convention.smallest, LARGEST + 1)
        truth = {k: true_tpot(convention, k, a=a, c=c) for k in windows}
        best = windows[int(curve.argmin())]
        chosen = truth[best] if curve.min() < PLAIN_STEP else PLAIN_STEP
        losses.append(chosen / min(*truth.values(), PLAIN_STEP) - 1)
    assert max(losses) <= 0.03, f"worst loss {max(losses):.1%}"


def test_a_second_window_separates_fixed_cost() -> None:
    two = [observation(TEXTBOOK, a=0.8, c=0.1, f=0.5, window=k, seed=k) for k in (3, 9)]
    model = fit(two, TEXTBOOK, draws=0)
    assert model.fixed == pytest.approx(0.5, abs=0.04)
    assert model.slope == pytest.approx(0.1, abs=0.01)


def test_look_up_drafting_leaves_plain_steps_plain() -> None:
    # 60 plain steps of one token, 40 drafted steps of 4 tokens at cost 2.4 = 1 + 0.2 * 7: u = 60 / 220.
    sizes = np.zeros((1, 8))
    sizes[0, 0], sizes[0, 3] = 60, 40
    sequence = (1,) * 60 + (4,) * 40
    seen = Observation(
        window=7,
        fill=1.0,
        sizes=sizes,
        sequences=((sequence,),),
        steps=np.array([100.0]),
        drafted=np.array([40.0]),
        tokens=np.array([220.0]),
        seconds=np.array([(60 + 40 * 2.4) * 0.03]),
        baseline=np.array([0.03]),
    )
    model: Model = fit([seen], TEXTBOOK, draws=0)
    assert model.undrafted == pytest.approx(60 / 220)
    assert model.slope == pytest.approx(0.2)
    measured = (60 + 40 * 2.4) * 0.03 / 220
    # Positions 4 to 7 were reached by 40, 0, 0, 0 steps; the prior lets a little through, hence 2%.
    assert model.tpot(7)[0] == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize(
    ("cost", "window", "expected"),
    # Break-even acceptance of the fused convention, recomputed by hand from 1 + a + ... + a^(k-1) = 1 + k c;
    # facts of docs/window.md.
    [(0.10, 3, 0.24), (0.10, 5, 0.34), (0.10, 7, 0.41), (0.19, 7, 0.58), (0.25, 7, 0.66)],
)
def test_break_even(cost: float, window: int, expected: float) -> None:
    found = break_even(NXDI_FUSED, window, cost=1 + cost * window)
    assert found == pytest.approx(expected, abs=0.01)


def test_no_acceptance_pays_for_a_dear_window() -> None:
    assert break_even(NXDI_FUSED, 7, cost=7.5) is None


def test_conventions_count_differently() -> None:
    assert constant_tokens(TEXTBOOK, 7, 1.0) == 8
    assert constant_tokens(NXDI_FUSED, 7, 1.0) == 7
    assert constant_tokens(TEXTBOOK, 2, 0.5) == 1.75


def test_acceptance_for_a_speedup_is_its_inverse() -> None:
    rate = acceptance_for(NXDI_FUSED, 2.0, slope=0.1)
    assert rate is not None
    assert best_speedup(NXDI_FUSED, rate, slope=0.1) == pytest.approx(2.0, abs=1e-6)
    assert acceptance_for(NXDI_FUSED, 20.0, slope=0.1) is None


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_services_lose_nothing_where_cost_is_linear(kind: str) -> None:
    # Pooled survival lost more than 3% in 7 to 10 of 25 of these. All 25: scripts/tune_proof.py.
    found = outcomes(kind, "linear", services=4, windows=[7])
    assert max(outcome.loss for outcome in found) <= CLOSE


@pytest.mark.parametrize("shape", sorted(set(COSTS) - {"linear"}))
def test_no_shape_of_cost_makes_a_wrong_window_sure(shape: str) -> None:
    found = [o for kind in KINDS for o in outcomes(kind, shape, services=4, windows=[7])]
    assert not [outcome for outcome in found if outcome.loss > CLOSE and outcome.sure > 0.8]
    # Where it is not sure, it names a window that would tell.
    assert all(
        outcome.confirm is not None and outcome.confirm != 7 for outcome in found if outcome.sure < 0.8
    )


def test_more_windows_tell_the_shape_of_the_cost() -> None:
    windows = list(range(1, 16))
    truth = 1 + 0.15 * (bucket(np.asarray(windows, dtype=np.float64) + 1) - 1)

    def error(*measured: int) -> float:
        extra = np.tile([truth[k - 1] - 1 for k in measured], (201, 1))
        cost = fit_cost(measured, extra, windows, np.random.default_rng(3))
        return float(np.abs(cost.estimate / truth - 1).max())

    assert error(7) > 0.25
    assert error(2, 7, 9, 15) < 0.12


def test_replay_is_the_walk_token_by_token() -> None:
    chance = random.Random(5)
    for _ in range(50):
        bits = [chance.random() < 0.7 for _ in range(chance.randint(1, 60))]
        for usable in range(16):
            assert steps(runs(np.asarray(bits)).tolist(), usable) == walk(bits, usable)


def test_measured_steps_reveal_all_but_the_targets_own_tokens() -> None:
    bits = [True, True, False, True, True, True, True, False, True, False]
    sizes = walk(bits, 3)
    assert sizes == [3, 4, 1, 2]
    assert reveal(np.asarray(sizes), 3).tolist() == [1, 1, 0, 1, 1, 1, UNKNOWN, 0, 1, UNKNOWN]


def test_many_texts_at_once_are_replayed_as_each_by_itself() -> None:
    chance = random.Random(6)
    texts = [[chance.random() < 0.6 for _ in range(chance.randint(1, 70))] for _ in range(30)]
    lengths = np.asarray([len(bits) for bits in texts])
    kept = runs(np.concatenate([np.asarray(bits) for bits in texts]), lengths)
    alone = [runs(np.asarray(bits)) for bits in texts]
    assert kept.tolist() == np.concatenate(alone).tolist()
    windows = range(16)
    walked = [[steps(one.tolist(), usable) for usable in windows] for one in alone]
    count, single = counted_steps(kept, lengths, windows)
    assert count.tolist() == [[len(sizes) for sizes in row] for row in walked]
    assert single.tolist() == [[sizes.count(1) for sizes in row] for row in walked]

    sizes = [np.asarray(row[4]) for row in walked]
    counts = np.asarray([len(own) for own in sizes])
    revealed = reveal(np.concatenate(sizes), 3, counts)
    each = [reveal(own, 3) for own in sizes]
    assert revealed.tolist() == np.concatenate(each).tolist()
    rates = np.concatenate([local_rate(own, prior=0.3) for own in each])
    assert local_rate(revealed, lengths, prior=0.3) == pytest.approx(rates)
    plain = each[0]
    near = [plain[max(0, place - 16) : place + 17] for place in range(len(plain))]
    by_hand = [((part == 1).sum() + 0.6) / ((part != UNKNOWN).sum() + 2) for part in near]
    assert local_rate(plain, prior=0.3) == pytest.approx(by_hand)
