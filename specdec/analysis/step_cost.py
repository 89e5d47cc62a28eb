"""What a step costs at windows that were not measured: every shape that the cost may have is drawn.

A step that verifies a window ``k`` costs ``1 + g(k)`` plain steps. One measured window gives one value of
``g``; how it goes on is not known:

* *linear*: ``f + c k``, each position the same (Leviathan et al., arXiv 2211.17192, section 3.2, has f = 0);
* *bucketed*: graphs are compiled for powers of two of tokens, and a step costs as much as the next larger;
* *knee*: more tokens ride on the same pass over the weights until compute is used up, then each costs more;
* *saturating*: the first tokens are expensive (another kernel), further ones are nearly free.

With one window the estimate is the line through 1, and the other shapes make it less sure with the distance
from what was measured. With more, every shape counts as much as it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specdec.analysis.conventions import Floats

FIXED_SHARE = 0.3
"""With one window measured, up to this share of the extra step cost may be fixed. Neuron's EAGLE 3 rows
(window 1 costs 1.40 plain steps, window 3 costs 1.96) put an eighth of it there."""

LINEAR_SHARE = 0.4
"""Share of the draws that are lines; the other three shapes have the rest in equal parts."""

NOISE = 0.03
"""How far a measured step cost may be off, as a share of it: what a shape misses by less speaks little
against it."""

Draw = Callable[[np.random.Generator, float], tuple[float, ...]]
"""Draws the parameters of a shape, given the mean measured window."""

Shape = Callable[..., Floats]
"""Extra cost at some windows, up to a factor: windows in a row, and each parameter as a column of drawn
ones."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """Cost of a step in plain steps.

    Attributes:
        estimate: per window.
        draws: one row per draw: what it may be instead.
        kinds: number of the shape that each draw has.
        fixed, slope: the line that fits what was measured best, ``1 + fixed + slope * positions``.
    """

    estimate: Floats
    draws: Floats
    kinds: NDArray[np.int64]
    fixed: float
    slope: float


def fit_cost(
    measured: Sequence[float], extra: Floats, windows: Sequence[float], rng: np.random.Generator
) -> StepCost:
    """The cost at every window from that at the measured ones.

    Args:
        measured: positions that a step of each measured window verifies, its window where all are filled.
        extra: cost beyond a plain step, in plain steps: first row the estimate, a further one per draw; one
            column per measured window.
        windows: positions at which the cost is wanted.
        rng: draws the shapes.
    """
    at, wanted = np.asarray(measured, dtype=np.float64), np.asarray(windows, dtype=np.float64)
    point, drawn = np.maximum(extra[0], 0.0), np.maximum(extra[1:], 0.0)
    several = len(set(measured)) > 1
    fixed, slope = fit_line(at, point) if several else (0.0, float(point.mean() / at.mean()))
    line = 1 + fixed + slope * wanted
    kinds: NDArray[np.int64] = rng.choice(
        len(_SHAPES), size=len(drawn), p=[LINEAR_SHARE, *[(1 - LINEAR_SHARE) / 3] * 3]
    )
    count = len(kinds)
    if not count:
        return StepCost(line, np.empty((0, len(wanted))), kinds, fixed, slope)
    there, elsewhere = _heights(kinds, at, wanted, rng)
    if several:
        factors = _factors(there, point)
        missed = np.vstack([factors * there - point, fixed + slope * at - point])
        fits = np.exp(-0.5 * ((missed / (NOISE * (1 + point))) ** 2).sum(axis=1))
        # The line stands for all the lines that were drawn: with several windows its fixed part is fitted.
        share = np.append(np.full(count, 1 / count), LINEAR_SHARE) * fits
        share = share / share.sum() if share.sum() > 0 else np.append(np.zeros(count), 1.0)
        estimate = share @ np.vstack([1 + factors * elsewhere, line])
        chosen = rng.choice(len(share), size=len(drawn), p=share)
    else:
        estimate, chosen = line, np.arange(count)
    shaped = np.minimum(chosen, count - 1)
    draws: Floats = 1 + _factors(there[shaped], drawn) * elsewhere[shaped]
    for number in np.flatnonzero(chosen == count):
        f, c = fit_line(at, drawn[number])
        draws[number] = 1 + f + c * wanted
    return StepCost(estimate, draws, np.append(kinds, 0)[chosen], fixed, slope)


def _heights(
    kinds: NDArray[np.int64], at: Floats, wanted: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Extra cost of drawn shapes, one per row, up to a factor: at the measured windows and at the wanted
    ones.
    """
    reference = float(at.mean())
    drawn = [_SHAPES[int(kind)][0](rng, reference) for kind in kinds]
    there, elsewhere = np.empty((len(kinds), len(at))), np.empty((len(kinds), len(wanted)))
    for kind, (_, shape) in enumerate(_SHAPES):
        rows = np.flatnonzero(kinds == kind)
        if len(rows):
            parameters = np.asarray([drawn[row] for row in rows]).T[:, :, None]
            there[rows], elsewhere[rows] = shape(at, *parameters), shape(wanted, *parameters)
    return there, elsewhere


def _factors(heights: Floats, extra: Floats) -> Floats:
    """By least squares, never below 0: what each row of heights is to be multiplied with to give the extra
    cost.
    """
    fitted = (heights * extra).sum(axis=1) / np.square(heights).sum(axis=1)
    factors: Floats = np.maximum(0.0, fitted)[:, None]
    return factors


def bucket(tokens: Floats) -> Floats:
    """The power of two that ``tokens`` need."""
    result: Floats = 2.0 ** np.ceil(np.log2(np.maximum(tokens, 1.0)))
    return result


def _draw_linear(rng: np.random.Generator, reference: float) -> tuple[float, ...]:
    share = rng.uniform(0, FIXED_SHARE)
    return share * reference, share


def _linear(k: Floats, fixed: Floats, share: Floats) -> Floats:
    return fixed + (1 - share) * k


def _draw_bucketed(rng: np.random.Generator, _: float) -> tuple[float, ...]:
    # The draft's own passes are as many as positions; verification takes k or k + 1 tokens.
    return rng.uniform(0, 0.5), float(rng.integers(0, 2))


def _bucketed(k: Floats, drafting: Floats, bonus: Floats) -> Floats:
    return drafting * k + (1 - drafting) * (bucket(k + bonus) - (1 - bonus) * 0.5)


def _draw_knee(rng: np.random.Generator, _: float) -> tuple[float, ...]:
    return rng.uniform(2, 12), rng.uniform(1, 6)


def _knee(k: Floats, place: Floats, factor: Floats) -> Floats:
    above: Floats = np.maximum(k - place, 0)
    return k + factor * above


def _draw_saturating(rng: np.random.Generator, _: float) -> tuple[float, ...]:
    return (rng.uniform(1.5, 12),)


def _saturating(k: Floats, reach: Floats) -> Floats:
    risen: Floats = 1 - np.exp(-k / reach)
    return risen


_SHAPES: tuple[tuple[Draw, Shape], ...] = (
    (_draw_linear, _linear),
    (_draw_bucketed, _bucketed),
    (_draw_knee, _knee),
    (_draw_saturating, _saturating),
)


def fit_line(at: Floats, extra: Floats) -> tuple[float, float]:
    """Fixed part and slope by least squares, neither below 0."""
    centered = at - at.mean()
    slope = max(0.0, float(extra @ centered / (centered @ centered)))
    fixed = float(extra.mean() - slope * at.mean())
    return (fixed, slope) if fixed >= 0 else (0.0, float(extra @ at / (at @ at)))
