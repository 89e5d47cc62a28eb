"""From fitted window models to advice: which window, how sure, what to measure next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specdec.analysis.advice import WindowAdvice, WindowPoint
from specdec.analysis.constant_acceptance import break_even
from specdec.analysis.conventions import Floats
from specdec.analysis.window_model import Model

SURE = 0.8
"""Share of draws from which nothing is left to confirm."""

PLAUSIBLE = 0.05
"""Share of draws from which a shape of cost counts as possible."""

CLOSE = 0.03
"""Windows within this share of the best time per token count as equally good: less is not worth a compile."""


KEPT = CLOSE / 2
"""A measured window that is predicted to be at most this much slower than the best is kept."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The speculative variants of one draft, one per window, windows ascending.

    Attributes:
        variants: variant names.
        draft: draft model, or what the engine drafts with.
        windows: num_speculative_tokens of each.
    """

    variants: tuple[str, ...]
    draft: str | None
    windows: tuple[int, ...]


def advise(
    measured: Measured, models: Sequence[Model], *, test_case: str | None, tpots: dict[int, float]
) -> WindowAdvice:
    """Advice from one model, or for the mix of several test cases, each weighing the same.

    Args:
        measured: what was measured.
        models: one per test case, fitted with the same number of draws.
        test_case: its name; None for the mix.
        tpots: measured seconds per token by window.
    """
    first = models[0]
    windows = first.windows()
    curves: Floats = np.mean([model.curve() for model in models], axis=0)
    baseline: Floats = np.mean([model.baseline for model in models], axis=0)
    best = int(curves[0].argmin())
    chosen = preferred(curves[0], windows, measured.windows)
    pays = bool(curves[0, chosen] < baseline[0])
    confidence = confidence_in(chosen if pays else None, curves, baseline, first.kinds)
    steps = np.mean([[model.tokens_per_step(k)[0] for k in windows] for model in models], axis=0)
    costs = np.mean([[model.step_cost(k)[0] for k in windows] for model in models], axis=0)
    low, high = np.quantile(curves, [0.05, 0.95], axis=0)
    curve = tuple(
        WindowPoint(
            window=k,
            tokens_per_step=float(steps[i]),
            step_cost=float(costs[i]),
            tpot=float(curves[0, i]),
            # With one window measured the draws lean to a fixed cost that the estimate leaves out, so it can
            # lie beyond them.
            low=float(min(low[i], curves[0, i])),
            high=float(max(high[i], curves[0, i])),
            speedup=float(baseline[0] / curves[0, i]),
            measured_tpot=tpots.get(k),
        )
        for i, k in enumerate(windows)
    )
    recommended = windows[chosen] if pays else None
    near = any(
        k in windows and curves[0, k - windows.start] <= (1 + CLOSE) * curves[0, best]
        for k in measured.windows
    )
    confirm = None
    if confidence < SURE:
        confirm = most_telling([(curves[1:], baseline[1:])], windows, measured.windows)
    elif recommended is not None and not near:
        confirm = recommended
    speedup = float(baseline[0] / curves[0, chosen]) if pays else 1.0
    return WindowAdvice(
        variants=measured.variants,
        test_case=test_case,
        draft=measured.draft,
        convention=first.convention.name,
        measured_windows=measured.windows,
        baseline_tpot=float(baseline[0]),
        acceptance=float(np.mean([model.rate for model in models])),
        draft_cost=float(np.mean([model.slope for model in models])),
        step_overhead=float(np.mean([model.fixed for model in models])),
        undrafted_share=float(np.mean([model.undrafted for model in models])),
        break_even=break_even(
            first.convention,
            measured.windows[0],
            cost=float(np.mean([model.step_cost(measured.windows[0])[0] for model in models])),
        ),
        curve=curve,
        recommended=recommended,
        predicted_speedup=speedup,
        confidence=confidence,
        confirm=confirm,
        says=_says(recommended, speedup, confidence, confirm, windows[best], curve),
    )


def preferred(curve: Floats, windows: range, kept: Sequence[int]) -> int:
    """Column of the window to use: the best, or the first of those that would be kept and are hardly slower.

    Args:
        curve: estimated seconds per token by window.
        windows: of the columns.
        kept: windows, the dearest to keep first.
    """
    best = int(curve.argmin())
    near = (window - windows.start for window in kept if window in windows)
    return next((column for column in near if curve[column] <= (1 + KEPT) * curve[best]), best)


def confidence_in(choice: int | None, curves: Floats, baseline: Floats, kinds: NDArray[np.int64]) -> float:
    """Share of draws in which a choice is close to the best, under the shape of cost that speaks most against
    it: which shape holds is not a matter of chance. Shapes that hardly fit what was measured are left out.

    Args:
        choice: column of the chosen window; None for "off".
        curves: seconds per token, one row per draw, the estimate first, one column per window.
        baseline: seconds per token without speculation, one per draw, the estimate first.
        kinds: shape of each draw, the estimate left out.
    """
    chosen = baseline if choice is None else curves[:, choice]
    close = (chosen <= (1 + CLOSE) * np.minimum(curves.min(axis=1), baseline))[1:]
    shares = [
        float(close[kinds == kind].mean())
        for kind in range(int(kinds.max(initial=0)) + 1)
        if (kinds == kind).mean() > PLAUSIBLE
    ]
    return min(shares, default=0.0)


def most_telling(
    services: Sequence[tuple[Floats, Floats]], windows: range, measured: Sequence[int]
) -> int | None:
    """The window to measure next: the one after which the best of all that was measured loses least.

    A window has to be measured before it is used, so a measurement is worth what it adds to the choice
    between measured windows. Each draw is taken for the truth in turn: lost is by how much the best of the
    measured windows, the new one and plain decoding among them, is slower than the best of all.

    Args:
        services: one per load: seconds per token, one row per draw and one column per window, and the same
            without speculation, one per draw.
        windows: of the columns.
        measured: windows that are known already.

    Returns:
        None where no measurement would leave less to lose.
    """
    known = [window - windows.start for window in measured if window in windows]
    total, losses = 0.0, dict.fromkeys((window for window in windows if window not in measured), 0.0)
    for curves, baseline in services:
        if not len(curves):
            return None
        choices = np.column_stack([curves, baseline])
        regret = choices / choices.min(axis=1)[:, None] - 1
        now = regret[:, [*known, len(windows)]].min(axis=1)
        total += float(now.mean())
        for window in losses:
            losses[window] += float(np.minimum(now, regret[:, window - windows.start]).mean())
    window = min(losses, key=lambda window: losses[window], default=None)
    return window if window is not None and losses[window] < total else None


def _says(
    recommended: int | None,
    speedup: float,
    confidence: float,
    confirm: int | None,
    best: int,
    curve: tuple[WindowPoint, ...],
) -> str:
    sure = f"{confidence:.0%} sure to be within {CLOSE:.0%} of the best"
    if recommended is None:
        most = max(curve, key=lambda point: point.speedup)
        text = (
            f"leave speculation off: the best window, {most.window}, would give {most.speedup:.2f} times the"
            f" baseline's speed ({sure})"
        )
    elif recommended != best:
        text = (
            f"keep window {recommended}: {speedup:.2f} times the baseline's speed, and the best, {best}, is"
            f" predicted to be less than {KEPT:.1%} faster ({sure})"
        )
    else:
        text = f"use window {recommended}: {speedup:.2f} times the baseline's speed ({sure})"
    return f"{text}; measure window {confirm} to confirm" if confirm is not None else text
