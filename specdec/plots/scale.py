"""From values to places along an axis, and the round values at which an axis is labelled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_STEPS = (1, 2, 2.5, 5, 10)
_MANTISSAS = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear or logarithmic axis.

    Attributes:
        low, high: values at its ends.
        start, end: places of its ends, in user units; ``start`` is the place of ``low``.
        log: whether equal ratios are equally far apart.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value; beyond the ends for a value outside."""
        share = (self._at(value) - self._at(self.low)) / (self._at(self.high) - self._at(self.low))
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values between the ends, about ``most`` of them."""
        if self.log:
            for mantissas in reversed(_MANTISSAS):
                values = list(_decades(self.low, self.high, mantissas))
                if 3 <= len(values) <= most:
                    return values
        return even(self.low, self.high, most)

    def _at(self, value: float) -> float:
        return math.log(value) if self.log else value


def spanning(
    values: Iterable[float], start: float, end: float, *, zero: bool = False, log: bool = False
) -> Scale:
    """A scale that holds all values; with ``zero`` it starts there.

    A logarithmic scale needs values above 0, and becomes linear where one is not.
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    log = log and low > 0
    if zero and not log:
        low, high = min(0.0, low), max(0.0, high)
    if low == high:
        low, high = (low / 1.2, high * 1.2) if log else (low - abs(low) / 10, high + (abs(high) / 10 or 1))
    return Scale(low, high, start, end, log)


def even(low: float, high: float, most: int) -> list[float]:
    """Multiples of a round step between two values, at most ``most`` of them."""
    size = 10 ** math.floor(math.log10((high - low) / most))
    step = next(
        size * factor for factor in _STEPS if (high - low) / (size * factor) <= most - 1 or factor == 10
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * place, 12) for place in range(first, last + 1)]


def whole(longest: int, most: int = 8) -> list[int]:
    """Whole numbers from 1 to ``longest``, at most ``most`` of them."""
    return list(range(1, longest + 1, max(1, math.ceil(longest / most))))


def shown(value: float) -> str:
    """A tick's label."""
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}"


def _decades(low: float, high: float, mantissas: Sequence[float]) -> Iterable[float]:
    for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for mantissa in mantissas:
            value = mantissa * 10.0**exponent
            if low * (1 - 1e-9) <= value <= high * (1 + 1e-9):
                yield float(f"{value:.6g}")
