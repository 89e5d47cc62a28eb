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

Shape = Callable[[Floats], Floats]
"""Extra cost at some windows, up to a factor."""


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
    fixed, slope = _line(at, point) if several else (0.0, float(point.mean() / at.mean()))
    line = 1 + fixed + slope * wanted
    kinds: NDArray[np.int64] = rng.choice(
        len(_MAKERS), size=len(drawn), p=[LINEAR_SHARE, *[(1 - LINEAR_SHARE) / 3] * 3]
    )
    shapes: list[Shape] = [_MAKERS[int(kind)](rng, float(at.mean())) for kind in kinds]
    if not shapes:
        return StepCost(line, np.empty((0, len(wanted))), kinds, fixed, slope)
    if several:
        rows = np.asarray([1 + _factor(shape, at, point) * shape(wanted) for shape in shapes])
        missed = np.asarray(
            [_factor(shape, at, point) * shape(at) - point for shape in shapes] + [fixed + slope * at - point]
        )
        fits = np.exp(-0.5 * ((missed / (NOISE * (1 + point))) ** 2).sum(axis=1))
        # The line stands for all the lines that were drawn: with several windows its fixed part is fitted.
        share = np.append(np.full(len(shapes), 1 / len(shapes)), LINEAR_SHARE) * fits
        share = share / share.sum() if share.sum() > 0 else np.append(np.zeros(len(shapes)), 1.0)
        estimate = share @ np.vstack([rows, line])
        chosen = rng.choice(len(share), size=len(drawn), p=share)
    else:
        estimate, chosen = line, np.arange(len(shapes))
    draws = np.empty((len(drawn), len(wanted)))
    for number, (choice, value) in enumerate(zip(chosen, drawn, strict=True)):
        if choice == len(shapes):
            f, c = _line(at, value)
            draws[number] = 1 + f + c * wanted
        else:
            draws[number] = 1 + _factor(shapes[choice], at, value) * shapes[choice](wanted)
    return StepCost(estimate, draws, np.append(kinds, 0)[chosen], fixed, slope)


def bucket(tokens: Floats) -> Floats:
    """The power of two that ``tokens`` need."""
    result: Floats = 2.0 ** np.ceil(np.log2(np.maximum(tokens, 1.0)))
    return result


def _linear(rng: np.random.Generator, reference: float) -> Shape:
    share = rng.uniform(0, FIXED_SHARE)
    return lambda k: share * reference + (1 - share) * k


def _bucketed(rng: np.random.Generator, _: float) -> Shape:
    # The draft's own passes are as many as positions; verification takes k or k + 1 tokens.
    drafting, bonus = rng.uniform(0, 0.5), rng.integers(0, 2)
    return lambda k: drafting * k + (1 - drafting) * (bucket(k + bonus) - (1 - bonus) * 0.5)


def _knee(rng: np.random.Generator, _: float) -> Shape:
    place, factor = rng.uniform(2, 12), rng.uniform(1, 6)
    return lambda k: k + factor * np.maximum(k - place, 0)


def _saturating(rng: np.random.Generator, _: float) -> Shape:
    reach = rng.uniform(1.5, 12)
    return lambda k: 1 - np.exp(-k / reach)


_MAKERS: tuple[Callable[[np.random.Generator, float], Shape], ...] = (_linear, _bucketed, _knee, _saturating)


def _factor(shape: Shape, at: Floats, extra: Floats) -> float:
    values = shape(at)
    return max(0.0, float(values @ extra / (values @ values)))


def _line(at: Floats, extra: Floats) -> tuple[float, float]:
    """Fixed part and slope by least squares, neither below 0."""
    centered = at - at.mean()
    slope = max(0.0, float(extra @ centered / (centered @ centered)))
    fixed = float(extra.mean() - slope * at.mean())
    return (fixed, slope) if fixed >= 0 else (0.0, float(extra @ at / (at @ at)))
