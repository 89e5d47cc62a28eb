"""Quantiles and special functions that intervals are made of, from mpmath.

mpmath is 3 MB of plain Python. scipy has the same functions, but is 113 MB and takes a second of CPU to load,
which is more than a whole report takes; the tests hold these against it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import exp, lgamma, log, log1p, pi
from statistics import NormalDist
from typing import Any, Protocol, cast

import mpmath


class _Context(Protocol):
    """What is used of mpmath, which ships no types."""

    def betainc(self, a: float, b: float, x1: float, x2: float, *, regularized: bool) -> float: ...
    def gammainc(self, z: float, a: float, b: float, *, regularized: bool) -> float: ...
    def psi(self, m: int, z: float) -> float: ...
    def findroot(self, f: Callable[[float], float], x0: object, **options: Any) -> float: ...


_FLOATS, _LARGE = cast("_Context", mpmath.fp), cast("_Context", mpmath.mp)

_MOST = 200
"""Degrees of freedom up to which machine floats are enough; above it gamma functions overflow."""


@lru_cache(maxsize=65536)
def t_quantile(degrees: float, probability: float) -> float:
    """The value that Student's t with ``degrees`` of freedom stays under with ``probability``, above 0.5."""
    normal = NormalDist().inv_cdf(probability)
    # Cornish and Fisher's first correction lies below the root, where Newton's steps never pass it.
    start = normal + (normal**3 + normal) / (4 * degrees)
    context = _FLOATS if degrees <= _MOST else _LARGE

    def excess(value: float) -> float:
        tail = context.betainc(degrees / 2, 0.5, 0, degrees / (degrees + value * value), regularized=True)
        return 1 - probability - tail / 2

    def density(value: float) -> float:
        value = float(value)
        gammas = lgamma((degrees + 1) / 2) - lgamma(degrees / 2)
        return exp(gammas - log(degrees * pi) / 2 - (degrees + 1) / 2 * log1p(value * value / degrees))

    return float(context.findroot(excess, start, solver="newton", df=density, tol=1e-14, maxsteps=60))


@lru_cache(maxsize=4096)
def chi_square_quantile(degrees: float, probability: float) -> float:
    """The value that a chi-square variable with ``degrees`` of freedom stays under with ``probability``."""
    half = degrees / 2
    context = _FLOATS if degrees <= _MOST else _LARGE

    def excess(logarithm: float) -> float:
        return context.gammainc(half, 0, exp(logarithm), regularized=True) - probability

    # Half the value lies between these for any probability from 1e-9 to 1 - 1e-9.
    ends = (log(1e-9) + lgamma(half + 1)) / half, log(half + 25 + 8 * half**0.5)
    return 2 * exp(context.findroot(excess, ends, solver="bisect", tol=1e-20, maxsteps=80))


def digamma(value: float) -> float:
    """First derivative of log gamma, ``value`` above 0."""
    return float(_FLOATS.psi(0, value))


def trigamma(value: float) -> float:
    """Second derivative of log gamma, ``value`` above 0."""
    return float(_FLOATS.psi(1, value))


def inverse_trigamma(value: float) -> float:
    """The number above 0 whose trigamma is ``value``."""
    # 1 / trigamma is nearly a straight line (Smyth 2004, appendix), so a secant needs a few steps only.
    start = 0.5 + 1 / value
    return _FLOATS.findroot(lambda x: 1 / trigamma(abs(x)) - 1 / value, (start, 0.9 * start), solver="secant")
