"""The cost of a step from servers of known step times that accept on schedule, nothing or everything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdec.analysis.measured_costs import costs_of
from specdec.golden.settings import Settings
from specdec.golden.truth import Speculation

from .conftest import MakePlan, Measure, Start

pytestmark = pytest.mark.alone

PLAIN, VERIFYING, WINDOW = 0.025, 0.040, 5


@pytest.mark.parametrize("acceptance", [0.0, 1.0], ids=["nothing", "everything"])
def test_any_draft_tells_what_a_step_costs(
    acceptance: float, start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    speculation = Speculation(acceptance, WINDOW)
    _, plain = start(Settings(step=PLAIN))
    _, fast = start(Settings(step=VERIFYING, per_step=speculation))
    plan = make_plan({"baseline": plain, "fast": fast}, output_tokens=13)
    plan = replace(plan, targets=(plan.targets[0], replace(plan.targets[1], window=WINDOW)))
    manifest, records = measure(plan)
    told = costs_of(manifest, tuple(records))
    assert not told.reasons
    (cost,) = told.costs
    assert cost.tokens_per_step == pytest.approx(1 + WINDOW * acceptance, rel=0.1)
    # The machine may be late by a little; the two servers are so alike.
    assert cost.cost == pytest.approx(VERIFYING / PLAIN, rel=0.05)
    assert told.plain == pytest.approx(PLAIN, rel=0.05)
