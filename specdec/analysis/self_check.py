"""The noise floor of a run: the difference that it finds between the baseline and itself.

The second arm has its own connections and its own turns, as a variant has, so that whatever makes the turns
of one service differ lies between the two arms as well: a fresh connection, the place in a block, a disturbed
minute. All test cases are read together, since the arm is a small share of the run. It shows disturbances of
the whole run, not of one test case; the intervals of the rows cover those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specdec.analysis.blocks import block_spread
from specdec.analysis.gates import unlike
from specdec.analysis.pairing import log_ratios, pairs
from specdec.analysis.self_check_verdict import SelfCheck
from specdec.analysis.significance import MARGIN, decide, paired_ratio
from specdec.analysis.verdict import Decision, PairedRatio
from specdec.metrics.tpot import TPOT
from specdec.runs.record import RequestRecord

LEVEL = 0.95
"""Confidence that a difference of the measurement's own lies below the floor."""


def self_check(
    baseline: str, own: Sequence[RequestRecord], again: Sequence[RequestRecord]
) -> SelfCheck | None:
    """The baseline against itself; None where the run did not measure that.

    Args:
        baseline: variant name.
        own: the baseline's requests that ended as asked.
        again: all requests of its second arm, warm-up left out.
    """
    if not again:
        return None
    ok = [record for record in again if record.outcome == "ok"]
    row = log_ratios([pair for pair in pairs(own, ok) if not unlike(pair)], TPOT.of)
    tpot = paired_ratio(row, level=LEVEL, blocks=block_spread([row]))
    ends = None if tpot is None else tpot.interval
    check = SelfCheck(
        baseline=baseline,
        requests=len(again),
        ok=len(ok),
        tpot=tpot,
        floor=None if ends is None else max(ends.high, 1 / ends.low),
        differs=ends is not None and not ends.low <= 1 <= ends.high,
        says="",
    )
    return replace(check, says=_says(check))


def settled(ratio: PairedRatio | None, check: SelfCheck | None, repeats: float | None = None) -> Decision:
    """The decision of a ratio, or ``undecided`` if equal things differ as much.

    A difference must be larger than the noise floor. Where the baseline surely differs from itself, the whole
    interval must lie beyond the floor. Where the floor is above the margin that matters, nothing can be
    called equal either.

    Args:
        ratio: of a row; None where there is none.
        check: of the run.
        repeats: by how much the baseline's repeats on the row's test case differ, as a ratio of at least 1.
    """
    ends = ratio.interval if ratio else None
    decision = decide(ends)
    floor = check.floor if check is not None and check.floor is not None else 1.0
    if ratio is None or ends is None or decision == "undecided":
        return decision
    if decision == "no difference":
        return "undecided" if floor > 1 + MARGIN else decision
    nearest = ends.low if decision == "helps" else 1 / ends.high
    seen = nearest if check is not None and check.differs else max(ratio.value, 1 / ratio.value)
    within = seen <= floor or within_noise(ratio, repeats)
    return "undecided" if within else decision


def within_noise(ratio: PairedRatio, floor: float | None) -> bool:
    """Whether equal things differ as much as two variants do, see ``Comparison.floor``."""
    return floor is not None and max(ratio.value, 1 / ratio.value) <= floor


def _says(check: SelfCheck) -> str:
    asked = f"{check.baseline} was measured against itself with {check.requests} of its requests"
    tpot = check.tpot
    if tpot is None:
        return f"{asked}, and no pair has a time per token, so the noise floor is not known"
    if tpot.interval is None or check.floor is None:
        return f"{asked}: {tpot.value:.2f}x; there are {tpot.no_interval} to tell the noise floor"
    ends = f"{tpot.interval.low:.2f} to {tpot.interval.high:.2f}"
    said = f"{asked}: {tpot.value:.2f}x ({ends}), so a difference of up to {check.floor - 1:.1%} may be noise"
    return f"{said}; something in this run makes equal things differ" if check.differs else said
