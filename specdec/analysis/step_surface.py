"""What a step costs at windows and loads that were not measured.

Beyond the plain step of ``B`` sequences, a step that verifies a window ``k`` of each takes an extra time that
is measured at some pairs of load and window. How it goes on between and beyond them is not known, so that
many surfaces of several kinds are drawn (``surface_kinds``) and scaled to what was measured.

Every kind that can fit is drawn as often as the others, and within a kind each surface counts as much as it
fits. What it misses at the measured pairs is carried over to the pairs near
them, and what lies far from all of them may be off by more: a Gaussian process over the octaves of load and
window (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equations 2.25 and 2.26).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specdec.analysis.conventions import Floats
from specdec.analysis.surface_kinds import KINDS, SURFACES, Kind, Pairs, Parts

POSSIBLE = 6.0
"""A kind whose best surface is a twentieth as likely as the best of all is left out: twice the difference of
the logarithms."""

SPREAD = 0.12
"""How far the true extra cost may be off a surface far from all that was measured, as a share of it: one
standard deviation."""

REACH = 1.5
"""Octaves of load or window over which that is alike."""

MEASURED = 0.01
"""How far a measured step may be off, as a share of it, beside what the prompts differ by."""

LIKELY = 1e-4
"""Of the most likely surface's share, what counts for the estimate."""

LEAST = 0.05
"""Of a plain step: extra costs below are as uncertain as one of this size."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of one test case. One row per draw, the estimate first; one column per pair.

    Attributes:
        pairs: of load and window.
        plain: seconds of a plain step at the pair's load.
        extra: seconds that the verifying step took beyond it.
    """

    pairs: Pairs
    plain: Floats
    extra: Floats


@dataclass(frozen=True, slots=True)
class Surfaces:
    """Drawn surfaces.

    Attributes:
        extra: one per test case: seconds beyond the plain step; one row per draw, the estimate first, one
            column per wanted pair.
        kinds: number of the kind of each draw.
    """

    extra: tuple[Floats, ...]
    kinds: NDArray[np.int64]


def fit_surfaces(
    cases: Sequence[Measured], wanted: Pairs, plain: Sequence[Floats], rng: np.random.Generator
) -> Surfaces:
    """Draws surfaces.

    Args:
        cases: one per test case; they have the same surface up to its two factors.
        wanted: pairs whose extra cost is asked for.
        plain: one per test case: estimate of a plain step at each wanted pair's load, seconds.
        rng: draws everything.
    """
    every = Pairs(
        np.concatenate([case.pairs.loads for case in cases]),
        np.concatenate([case.pairs.positions for case in cases]),
    )
    kinds = [maker(rng, every) for maker in KINDS]
    numbers = np.repeat(np.arange(len(kinds)), SURFACES)
    there = _stacked(kinds, wanted)
    fits = [
        _Fit(case, _stacked(kinds, case.pairs), there, level, *_nearness(case, wanted))
        for case, level in zip(cases, plain, strict=True)
    ]
    missed: Floats = np.mean([fit.missed() for fit in fits], axis=0)
    several = len(set(every.positions.tolist())) > 1
    # Of one window the line is the estimate, as it is without load.
    best = _shares(missed, np.full(len(numbers), True) if several else numbers == 0)
    likely = np.flatnonzero(best > best.max() * LIKELY)
    draws = len(cases[0].extra) - 1
    chosen = _drawn(missed, numbers, draws, rng)
    noise: Floats = rng.standard_normal((draws, len(wanted)))
    extra: list[Floats] = []
    for fit in fits:
        point = np.repeat(fit.case.extra[:1], len(likely), axis=0)
        estimate: Floats = best[likely] @ fit.rows(likely, point) / best[likely].sum()
        extra.append(np.vstack([estimate, fit.rows(chosen, fit.case.extra[1:], noise @ fit.root.T)]))
    return Surfaces(tuple(extra), numbers[chosen])


def _drawn(
    missed: Floats, numbers: NDArray[np.int64], draws: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Surfaces by number. Every kind that can fit gets as many draws, since which one holds is not a matter
    of chance; within a kind, each surface by how much it fits.
    """
    possible = [
        kind
        for kind in range(int(numbers.max()) + 1)
        if missed[numbers == kind].min() - missed.min() < POSSIBLE
    ]
    parts = np.array_split(np.arange(draws), len(possible))
    chosen = [
        rng.choice(len(numbers), size=len(part), p=_shares(missed, numbers == kind))
        for kind, part in zip(possible, parts, strict=True)
    ]
    return np.concatenate(chosen)


def _shares(missed: Floats, among: NDArray[np.bool_]) -> Floats:
    """How much each surface counts."""
    fit = np.where(among, np.exp(-0.5 * (missed - missed[among].min())), 0.0)
    result: Floats = fit / fit.sum()
    return result


@dataclass(frozen=True, slots=True)
class _Fit:
    """One test case and all surfaces.

    Attributes:
        case: what was measured.
        at, there: the surfaces' parts at the measured and at the wanted pairs.
        plain: estimate of a plain step at the wanted pairs, seconds.
        carry: how much of each measured pair's miss every wanted pair takes over.
        root: of the covariance that is left.
    """

    case: Measured
    at: Parts
    there: Parts
    plain: Floats
    carry: Floats
    root: Floats

    def missed(self) -> Floats:
        """How far each surface is from what was measured, as twice a negative log-likelihood."""
        point = np.maximum(self.case.extra[0], 0.0)
        misses = (point - _fitted(self.at, point, 1 / (self.case.plain[0] + point), self.at)) / _scale(
            self.case
        )
        weighed: Floats = misses @ np.linalg.inv(_known(self.case))
        result: Floats = (misses * weighed).sum(axis=1)
        return result

    def rows(self, chosen: NDArray[np.int64], extra: Floats, unknown: Floats | float = 0.0) -> Floats:
        """Extra cost at the wanted pairs, by one chosen surface per row of ``extra``: with what it misses at
        the measured pairs carried over, and what is not known there.
        """
        at, there = ((parts[0][chosen], parts[1][chosen]) for parts in (self.at, self.there))
        plain, extra = self.case.plain[0], np.maximum(extra, 0.0)
        weight = 1 / (plain + extra)
        here, far = _fitted(at, extra, weight, at), _fitted(at, extra, weight, there)
        misses = (extra - here) / (here + LEAST * plain)
        moved: Floats = far + (misses @ self.carry.T + unknown) * (far + LEAST * self.plain)
        return np.maximum(0.0, moved)


def _fitted(parts: Parts, extra: Floats, weight: Floats, there: Parts) -> Floats:
    """The two factors by weighted least squares, none below 0, and the surface with them."""
    one, two = parts[0] * weight, parts[1] * weight
    goal = np.broadcast_to(extra * weight, one.shape)
    a, b, c = (one * one).sum(axis=1), (one * two).sum(axis=1), (two * two).sum(axis=1)
    left, right = (one * goal).sum(axis=1), (two * goal).sum(axis=1)
    least = 1e-12 * a * c
    size = np.maximum(a * c - b * b, np.maximum(least, 1e-300))
    first, second = (c * left - b * right) / size, (a * right - b * left) / size
    # Where one factor would be negative or the two parts are alike, the better of one part alone.
    single = (first < 0) | (second < 0) | (a * c - b * b <= least)
    alone = left**2 / np.maximum(a, 1e-300) >= right**2 / np.maximum(c, 1e-300)
    first = np.where(single, np.where(alone, left / np.maximum(a, 1e-300), 0.0), first)
    second = np.where(single, np.where(alone, 0.0, right / np.maximum(c, 1e-300)), second)
    result: Floats = first[:, None] * there[0] + second[:, None] * there[1]
    return result


def _nearness(case: Measured, wanted: Pairs) -> tuple[Floats, Floats]:
    """How much of each measured pair's miss every wanted pair takes over, and a root of the covariance that
    is left.
    """
    across = _alike(wanted, case.pairs)
    inverse = np.asarray(np.linalg.inv(_known(case)), dtype=np.float64)
    carry: Floats = across @ inverse
    return carry, root_of(_alike(wanted, wanted) - carry @ across.T)


def _scale(case: Measured) -> Floats:
    """What a miss is a share of."""
    scale: Floats = np.maximum(case.extra[0], 0.0) + LEAST * case.plain[0]
    return scale


def _known(case: Measured) -> Floats:
    """Covariance of the misses at the measured pairs: what surfaces do not tell, and noise."""
    extra, scale = np.maximum(case.extra, 0.0), _scale(case)
    noise = (MEASURED * (case.plain[0] + extra[0]) / scale) ** 2
    if len(extra) > 1:
        noise += np.asarray(extra[1:].std(axis=0) / scale, dtype=np.float64) ** 2
    covariance: Floats = _alike(case.pairs, case.pairs) + np.diag(noise)
    return covariance


def root_of(covariance: Floats) -> Floats:
    """A matrix whose product with its transpose is the covariance; what rounding made negative is 0."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _alike(one: Pairs, other: Pairs) -> Floats:
    loads = np.subtract.outer(np.log2(one.loads), np.log2(other.loads))
    windows = np.subtract.outer(np.log2(one.positions + 1), np.log2(other.positions + 1))
    result: Floats = SPREAD**2 * np.exp(-0.5 * (loads**2 + windows**2) / REACH**2)
    return result


def _stacked(kinds: Sequence[Kind], pairs: Pairs) -> Parts:
    both = [kind(pairs) for kind in kinds]
    return np.vstack([one for one, _ in both]), np.vstack([two for _, two in both])
