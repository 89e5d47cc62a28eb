"""The kinds of surface that a step's extra cost may be over load and window.

Each is a sum of two parts, ``a f1(B, k) + b f2(B, k)`` with ``a, b >= 0``:

* over the window: ``f1 = s(k)`` and ``f2 = (B - 1) s(k)``, where ``s`` is one of the shapes of ``step_cost``
  (linear, bucketed, knee, saturating), and a share of it does not depend on the window: starting the draft,
  scheduling. *Overhead* is a line of which most is fixed, and a *jump* is nearly free up to some window;
* over all tokens of the step, ``B (k + 1)`` of them: ``f1`` is the draft's own, and ``f2 = H(B (k + 1)) -
  H(B)``, where ``H`` has a knee (compute is used up) or goes in powers of two (graphs are compiled for them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specdec.analysis.conventions import Floats
from specdec.analysis.step_cost import bucket

SURFACES = 200
"""That are drawn of each kind."""

SMALL_SHARE = 0.3
"""Of the extra cost, what may not depend on the window under the kinds whose name is their shape."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of load and window, one element each.

    Attributes:
        loads: sequences decoded together.
        positions: that a step verifies of each.
    """

    loads: Floats
    positions: Floats

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.loads)


Parts = tuple[Floats, Floats]
"""``f1`` and ``f2``: one row per surface, one column per pair."""

Kind = Callable[[Pairs], Parts]


def _column(values: Floats) -> Floats:
    return values[:, None]


def _over_window(
    rng: np.random.Generator, pairs: Pairs, shape: Callable[[Floats], Floats], fixed: Floats
) -> Kind:
    """``s(k)`` and ``(B - 1) s(k)``; shares of both are fixed, each its own."""
    reference = np.asarray([pairs.positions.mean()])
    other = rng.permutation(fixed)

    def parts(at: Pairs) -> Parts:
        curve = shape(at.positions) / shape(reference)
        one = _column(fixed) + (1 - _column(fixed)) * curve
        two = _column(other) + (1 - _column(other)) * curve
        return one, (at.loads - 1) * two

    return parts


def _over_tokens(
    rng: np.random.Generator, pairs: Pairs, total: Callable[[Floats], Floats], fixed: Floats
) -> Kind:
    reference = Pairs(np.asarray([pairs.loads.mean()]), np.asarray([pairs.positions.mean()]))
    drafting = _column(rng.uniform(0, 0.5, len(fixed)))

    def raised(at: Pairs) -> Floats:
        rise: Floats = total(at.loads * (at.positions + 1)) - total(at.loads)
        return rise

    def parts(at: Pairs) -> Parts:
        one = _column(fixed) + (1 - _column(fixed)) * at.positions / reference.positions
        line = at.loads * at.positions / (reference.loads * reference.positions)
        two = drafting * line + (1 - drafting) * raised(at) / np.maximum(raised(reference), 1e-9)
        return one, two

    return parts


def _small(rng: np.random.Generator) -> Floats:
    return rng.uniform(0, SMALL_SHARE, SURFACES)


def _linear(rng: np.random.Generator, pairs: Pairs) -> Kind:
    return _over_window(rng, pairs, lambda k: np.broadcast_to(k, (SURFACES, len(k))), _small(rng))


def _overhead(rng: np.random.Generator, pairs: Pairs) -> Kind:
    fixed = rng.uniform(SMALL_SHARE, 1, SURFACES)
    return _over_window(rng, pairs, lambda k: np.broadcast_to(k, (SURFACES, len(k))), fixed)


def _bucketed(rng: np.random.Generator, pairs: Pairs) -> Kind:
    drafting, bonus = (
        _column(rng.uniform(0, 0.5, SURFACES)),
        _column(rng.integers(0, 2, SURFACES).astype(np.float64)),
    )

    def shape(k: Floats) -> Floats:
        result: Floats = drafting * k + (1 - drafting) * (bucket(k + bonus) - (1 - bonus) * 0.5)
        return result

    return _over_window(rng, pairs, shape, _small(rng))


def _knee(rng: np.random.Generator, pairs: Pairs) -> Kind:
    place, factor = _column(rng.uniform(2, 12, SURFACES)), _column(rng.uniform(1, 6, SURFACES))

    def shape(k: Floats) -> Floats:
        result: Floats = k + factor * np.maximum(k - place, 0)
        return result

    return _over_window(rng, pairs, shape, _small(rng))


def _saturating(rng: np.random.Generator, pairs: Pairs) -> Kind:
    reach = _column(rng.uniform(1.5, 12, SURFACES))
    return _over_window(rng, pairs, lambda k: 1 - np.exp(-k / reach), _small(rng))


def _jump(rng: np.random.Generator, pairs: Pairs) -> Kind:
    # Between two measured windows a cost can be that of the one up to anywhere, and then that of the other.
    place, slope = _column(rng.uniform(1, 12, SURFACES)), _column(rng.uniform(0.0, 0.03, SURFACES))

    def shape(k: Floats) -> Floats:
        result: Floats = slope * k + (k >= place) + 1e-3
        return result

    free = rng.uniform(0, 0.1, SURFACES)
    return _over_window(
        rng, pairs, shape, np.where(rng.random(SURFACES) < 0.5, free, rng.uniform(0, 1, SURFACES))
    )


def _most_tokens(pairs: Pairs) -> float:
    return float((pairs.loads * (pairs.positions + 1)).max())


def _knee_of_tokens(rng: np.random.Generator, pairs: Pairs) -> Kind:
    place = _column(np.exp(rng.uniform(np.log(2), np.log(2 * _most_tokens(pairs)), SURFACES)))
    below = _column(rng.uniform(0.02, 0.5, SURFACES))

    def total(tokens: Floats) -> Floats:
        result: Floats = below * tokens + np.maximum(tokens - place, 0)
        return result

    return _over_tokens(rng, pairs, total, rng.uniform(0, 1, SURFACES))


def _buckets_of_tokens(rng: np.random.Generator, pairs: Pairs) -> Kind:
    def total(tokens: Floats) -> Floats:
        return np.broadcast_to(bucket(tokens), (SURFACES, len(tokens)))

    return _over_tokens(rng, pairs, total, rng.uniform(0, 1, SURFACES))


KINDS: tuple[Callable[[np.random.Generator, Pairs], Kind], ...] = (
    _linear,
    _overhead,
    _bucketed,
    _knee,
    _saturating,
    _jump,
    _knee_of_tokens,
    _buckets_of_tokens,
)
