"""Runs that were interrupted and resumed, simulated on the product's own schedule: the verdict is that of an
uninterrupted run, on one machine and on two.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from specdec.analysis.judge import judge
from specdec.analysis.pairing import pairs
from specdec.analysis.seams import shifts
from specdec.analysis.verdict import Verdict
from specdec.benchmark.load import blocks
from specdec.benchmark.resume import earlier
from specdec.runs.folder import Run
from specdec.runs.record import RequestRecord
from specdec.runs.seam import Seam
from tests.analysis.noise import Design, Disturbance, measure, plan_of, true_gains
from tests.analysis.simulate import manifest

VARIANTS: dict[str, dict[str, Any]] = {"baseline": {}, "fast": {"window": 7, "draft": "d"}}
DESIGN = Design(cases=6, effects=(0.3, 0.0, -0.2), repeats=4)
"""Test cases in turn help, show no difference, hurt."""
DISTURBANCE = Disturbance(request=0.005, prompt=0.004, block=0.004)


@dataclass(frozen=True)
class Told:
    """One experiment, uninterrupted, and interrupted and resumed."""

    whole: list[RequestRecord]
    records: list[RequestRecord]
    seam: Seam

    def verdicts(self) -> tuple[Verdict, Verdict]:
        resumed = manifest(VARIANTS, run="second", seams=(self.seam,))
        return judge(manifest(VARIANTS), self.whole), judge(resumed, self.records)


def simulated(
    seed: int,
    *,
    cut: float,
    design: Design = DESIGN,
    disturbance: Disturbance = DISTURBANCE,
    torn_stays: bool = False,
    **second: float,
) -> Told:
    """An experiment that is interrupted after a share ``cut`` of its requests, inside of a variant's turn,
    and resumed on a machine as ``second`` says.
    """
    chance = random.Random(seed)
    plan = plan_of(design, chance.randrange(1 << 30))
    planned = list(blocks(plan))
    gains = true_gains(chance, disturbance, plan, design)
    whole = measure(random.Random(seed + 1), disturbance, design, plan, planned, gains)
    first = measure(random.Random(seed + 2), disturbance, design, plan, planned, gains, run="first")
    first = first[: int(len(first) * cut) // 8 * 8 + 3]
    interrupted = Run(Path(), manifest(VARIANTS, run="first", status="interrupted"), tuple(first))
    stands = earlier(plan, interrupted, planned)
    left = [block for block in planned if block.number not in stands.blocks]
    rest = measure(random.Random(seed + 3), disturbance, design, plan, left, gains, run="second", **second)
    kept: Sequence[RequestRecord] = stands.records
    if torn_stays:
        asked = {(record.variant, record.prompt, record.repeat) for record in first}
        kept = first
        rest = [record for record in rest if (record.variant, record.prompt, record.repeat) not in asked]
    return Told(whole, [*kept, *rest], stands.seam(planned))


@pytest.mark.parametrize("slower", [0.0, 0.3, -0.3])
@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_a_resumed_run_has_the_verdict_of_an_uninterrupted_one(cut: float, slower: float) -> None:
    told = simulated(1, cut=cut, slower=slower)
    whole, resumed = told.verdicts()
    decisions = [(row.test_case, row.decision) for row in whole.comparisons]
    assert [(row.test_case, row.decision) for row in resumed.comparisons] == decisions
    assert {decision for _, decision in decisions} == {"helps", "no difference", "hurts"}
    (seam,) = [said for said in resumed.caveats if "interrupted before block" in said]
    assert "records of run first stand" in seam
    for ours, theirs in zip(whole.comparisons, resumed.comparisons, strict=True):
        assert ours.tpot is not None
        assert theirs.tpot is not None
        assert theirs.tpot.value == pytest.approx(ours.tpot.value, rel=0.02)
        assert theirs.tpot.pairs == ours.tpot.pairs
        assert [reason.code for reason in theirs.reasons] == [reason.code for reason in ours.reasons]
    sides = {(record.block, record.run) for record in told.records}
    assert len(sides) == len({block for block, _ in sides}), "a block lies on both sides"


def test_pairs_across_the_seam_would_break_it() -> None:
    # What whole blocks are for: here the halves of a torn block stay, one from either machine.
    design = Design(effects=(0.0,), repeats=1, cases=4, prompts=16)
    widths: list[float] = []
    for torn_stays in (False, True):
        told = simulated(1, design=design, cut=0.4, slower=0.5, torn_stays=torn_stays)
        _, resumed = told.verdicts()
        intervals = [row.tpot.interval for row in resumed.comparisons if row.tpot]
        widths.append(max(math.log(interval.high / interval.low) for interval in intervals if interval))
    assert widths[0] < 0.1 < widths[1]


def test_repeats_on_two_machines_are_no_noise_of_the_baseline() -> None:
    told = simulated(1, cut=0.15, slower=0.4)
    _, resumed = told.verdicts()
    assert all(row.noise is None or row.noise < 1.1 for row in resumed.comparisons)
    # As if nobody had noticed the seam: the machines' difference is taken for the baseline's own.
    blind = judge(manifest(VARIANTS), [replace(record, run="second") for record in told.records])
    assert any(row.noise and row.noise > 1.1 for row in blind.comparisons)


def test_a_machine_that_changes_the_ratio_is_named_and_the_rows_do_not_count() -> None:
    _, resumed = simulated(1, cut=0.5, gain_lost=0.25).verdicts()
    for row in resumed.comparisons:
        (reason,) = [reason for reason in row.reasons if reason.code == "seam"]
        assert reason.withholds
        assert "before the interruption" in reason.says
        assert not row.counts


def test_the_ratio_is_seldom_called_changed_where_it_is_not() -> None:
    # Within the margin, on a slower machine, with what blocks share.
    noisy = Disturbance(request=0.03, prompt=0.03, block=0.03)
    called = 0
    for seed in range(60):
        told = simulated(seed, cut=0.5, disturbance=noisy, slower=0.3, gain_lost=0.04)
        sides = [[r for r in told.records if r.variant == name] for name in VARIANTS]
        called += bool(shifts([("fast", pairs(*sides))], (told.seam,), level=0.98, margin=0.05))
    assert called <= 2
