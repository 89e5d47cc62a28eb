"""What a step costs, read from runs whose step costs are known."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from specdec.analysis.measured_costs import StepCosts, costs_of
from specdec.runs.record import RequestRecord
from tests.analysis.simulate import PLAIN_STEP, manifest, record, stream

PROMPTS = 8


def cost(window: int) -> float:
    """Bucketed: no line goes through it."""
    return 1 + 0.1 * (1 << window.bit_length())


def measured(
    windows: tuple[int, ...], acceptance: Callable[[int], float], *, prompts: int = PROMPTS, seed: int = 1
) -> StepCosts:
    chance = random.Random(seed)
    records: list[RequestRecord] = []
    variants: dict[str, dict[str, object]] = {"baseline": {}}
    for window in (0, *windows):
        name = f"w{window}" if window else "baseline"
        variants |= {name: {"window": window} if window else {}}
        for number in range(prompts):
            times, counts = stream(chance, window=window, acceptance=acceptance, cost=cost)
            records.append(record(name, f"p{number}", times=times, counts=counts))
    return costs_of(manifest(variants), tuple(records))


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0], ids=["nothing", "half", "all"])
def test_a_step_costs_the_same_whatever_is_kept(kept: float) -> None:
    told = measured((2, 7, 15), lambda _: kept)
    assert not told.reasons
    assert [one.window for one in told.costs] == [2, 7, 15]
    for one in told.costs:
        assert one.cost == pytest.approx(cost(one.window), rel=0.02)
        low, high = one.band
        assert low <= one.cost <= high
        assert high - low < 0.1 * one.cost
        assert one.tokens_per_step == pytest.approx({0.0: 1, 1.0: one.window + 1}.get(kept, 2), rel=0.15)
    assert told.plain == pytest.approx(PLAIN_STEP, rel=0.01)


def test_what_cannot_be_told_is_named() -> None:
    few = measured((7,), lambda _: 0.5, prompts=2)
    assert not few.costs
    assert few.plain is None
    assert "too few" in few.reasons["w7"]
    plain = record("baseline", "p", times=[0.1, 0.2, 0.3], counts=[1, 2, 3])
    joined = record("fast", "p", times=[0.1, 0.3], counts=[1, 9])
    unknown = costs_of(manifest({"baseline": {}, "fast": {"window": None}}), (plain, joined))
    assert "--window" in unknown.reasons["fast"]
