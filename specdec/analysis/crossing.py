"""Where a ratio over load passes 1.

Between two measured loads, each prompt's time per token is taken as a straight line, for both variants: the
cost of a step grows in proportion to its sequences as long as the same resource limits it. Outside the
measured loads nothing is said. The interval holds every load at which the ratio's own interval leaves it open
whether the variant is faster or slower (Fieller's argument), so that it agrees with what is said of the
measured loads, and holds with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING

from specdec.analysis.load_verdict import Crossing

if TYPE_CHECKING:
    from specdec.analysis.verdict import PairedRatio

RatioAt = Callable[[float], "PairedRatio | None"]

PIECES = 12
"""Parts of a gap between two measured loads in which the end of an interval is first looked for."""

HALVINGS = 12


def crossings(loads: Sequence[float], ratio_at: RatioAt) -> tuple[Crossing, ...]:
    """Every crossing that can be told: between two loads of which one is told faster and the next one told is
    slower.

    Args:
        loads: measured, ascending.
        ratio_at: the ratio at any load from the first to the last.
    """
    sides = [(load, side) for load in loads if (side := _side(ratio_at(load))) != 0]
    return tuple(
        _between(low, high, side, loads, ratio_at)
        for (low, side), (high, other) in pairwise(sides)
        if side != other
    )


def _between(low: float, high: float, side: int, loads: Sequence[float], ratio_at: RatioAt) -> Crossing:
    knots = [load for load in loads if low <= load <= high]
    grid = [a + (b - a) * part / PIECES for a, b in pairwise(knots) for part in range(PIECES)] + [high]
    begin = _edge(grid, lambda load: _side(ratio_at(load)) == side)
    end = _edge(grid[::-1], lambda load: _side(ratio_at(load)) == -side)
    passes = [
        _root(a, b, ratio_at)
        for a, b in pairwise(grid)
        if (_value(ratio_at(a)) > 0) != (_value(ratio_at(b)) > 0)
    ]
    # Between two sides there is an odd number of passes; several lie within the noise of one another.
    load = passes[len(passes) // 2] if passes else (begin + end) / 2
    return Crossing(load=load, low=min(begin, load), high=max(end, load), downward=side > 0)


def _edge(grid: Sequence[float], holds: Callable[[float], bool]) -> float:
    """The load up to which a condition holds that holds at the first of ``grid`` and not at the last."""
    inside = grid[0]
    for load in grid[1:]:
        if not holds(load):
            outside = load
            break
        inside = load
    else:
        return inside
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


def _root(low: float, high: float, ratio_at: RatioAt) -> float:
    above = _value(ratio_at(low)) > 0
    for _ in range(2 * HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if (_value(ratio_at(middle)) > 0) == above else (low, middle)
    return (low + high) / 2


def _side(ratio: PairedRatio | None) -> int:
    """1 if the variant is shown to be faster, -1 if slower, 0 if neither."""
    if ratio is None or ratio.interval is None:
        return 0
    return (ratio.interval.low > 1) - (ratio.interval.high < 1)


def _value(ratio: PairedRatio | None) -> float:
    return 0.0 if ratio is None else log(ratio.value)
