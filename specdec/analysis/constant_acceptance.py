"""The arithmetic of constant acceptance: break-even, and what another draft would need to keep up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from specdec.analysis.window_model import LARGEST
from specdec.catalog.conventions import Convention


def break_even(convention: Convention, window: int, *, cost: float) -> float | None:
    """Constant acceptance at which a window starts to pay: tokens per step equal the step's cost. None if
    none does.

    Args:
        convention: of the stack.
        window: num_speculative_tokens.
        cost: of a step that verifies the window, in plain steps.
    """
    return _acceptance_reaching(cost, lambda rate: constant_tokens(convention, window, rate))


def constant_tokens(convention: Convention, window: int, rate: float) -> float:
    """Tokens per step with constant acceptance ``rate``."""
    return float(convention.tokens(window, rate ** np.arange(1, window + 1, dtype=np.float64)))


def acceptance_of(convention: Convention, window: int, tokens: float) -> float:
    """The constant acceptance that gives ``tokens`` per step at a window, no more than 1."""
    return _acceptance_reaching(tokens, lambda rate: constant_tokens(convention, window, rate)) or 1.0


def best_speedup(convention: Convention, rate: float, *, slope: float, fixed: float = 0.0) -> float:
    """Largest speed-up over all windows with constant acceptance; 1 if no window pays."""
    windows = range(convention.smallest, LARGEST + 1)
    return max(1.0, *(constant_tokens(convention, k, rate) / (1 + fixed + slope * k) for k in windows))


def acceptance_for(
    convention: Convention, speedup: float, *, slope: float, fixed: float = 0.0
) -> float | None:
    """Constant acceptance at which the best window gives ``speedup``; None if none does."""
    return _acceptance_reaching(
        speedup, lambda rate: best_speedup(convention, rate, slope=slope, fixed=fixed)
    )


def _acceptance_reaching(goal: float, reached: Callable[[float], float]) -> float | None:
    if reached(1.0) < goal:
        return None
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < goal else (low, middle)
    return high
