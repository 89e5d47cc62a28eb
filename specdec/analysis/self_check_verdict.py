"""The part of the verdict about the baseline measured against itself. Ratios as in
``specdec.analysis.verdict``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec.analysis.verdict import PairedRatio


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """The baseline measured against itself, inside the run.

    Attributes:
        baseline: variant name.
        requests: sent a second time.
        ok: of these, that ended as asked.
        tpot: ratio of the baseline over its second arm, over all test cases; None without a pair in which
            both have a time per token.
        floor: the noise floor: the end of the ratio's interval that is farther from 1, as a ratio of at least
            1. A difference up to it may be the measurement's own. None without an interval.
        differs: whether the interval leaves 1 out: something in the run makes equal things differ.
        says: all of it in one sentence.
    """

    baseline: str
    requests: int
    ok: int
    tpot: PairedRatio | None
    floor: float | None
    differs: bool
    says: str
