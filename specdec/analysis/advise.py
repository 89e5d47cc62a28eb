"""From fitted window models to advice: which window, how sure, what to measure next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specdec.analysis.advice import WindowAdvice, WindowPoint
from specdec.analysis.conventions import Floats
from specdec.analysis.window import Model, break_even

CLOSE = 0.03
"""Windows within this share of the best time per token count as equally good: less is not worth a compile."""


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
    pays = curves[0, best] < baseline[0]
    chosen = curves[:, best] if pays else baseline
    ideal = np.minimum(curves.min(axis=1), baseline)
    confidence = float(np.mean(chosen[1:] <= (1 + CLOSE) * ideal[1:])) if len(chosen) > 1 else 0.0
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
    recommended = windows[best] if pays else None
    near = [
        k
        for k in measured.windows
        if k in windows and curves[0, k - windows.start] <= (1 + CLOSE) * curves[0, best]
    ]
    confirm = _confirm(
        curves, baseline, windows, measured.windows, recommended, keep=bool(near), confidence=confidence
    )
    speedup = float(baseline[0] / curves[0, best]) if pays else 1.0
    return WindowAdvice(
        variants=measured.variants,
        test_case=test_case,
        draft=measured.draft,
        convention=first.convention.name,
        measured_windows=measured.windows,
        baseline_tpot=float(baseline[0]),
        acceptance=float(np.mean([model.rate[0] for model in models])),
        draft_cost=float(np.mean([model.slope[0] for model in models])),
        step_overhead=float(np.mean([model.fixed[0] for model in models])),
        undrafted_share=float(np.mean([model.undrafted[0] for model in models])),
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
        says=_says(recommended, speedup, confidence, confirm, near, curve),
    )


def _confirm(
    curves: Floats,
    baseline: Floats,
    windows: range,
    measured: tuple[int, ...],
    recommended: int | None,
    *,
    keep: bool,
    confidence: float,
) -> int | None:
    if recommended is not None and not keep:
        return recommended
    if confidence >= 0.9:
        return None
    # The measured window is good enough if the model holds; measure the one that most often turns out best
    # instead.
    winners = curves[1:].argmin(axis=1)
    beats = curves[1:].min(axis=1) < baseline[1:]
    votes = np.bincount(winners[beats], minlength=len(windows)).astype(np.float64)
    for window in measured:
        if window in windows:
            votes[window - windows.start] = 0
    return windows[int(votes.argmax())] if votes.any() else None


def _says(
    recommended: int | None,
    speedup: float,
    confidence: float,
    confirm: int | None,
    near: list[int],
    curve: tuple[WindowPoint, ...],
) -> str:
    sure = f"{confidence:.0%} of resamplings agree within {CLOSE:.0%}"
    if recommended is None:
        best = max(curve, key=lambda point: point.speedup)
        text = (
            f"leave speculation off: the best window, {best.window}, would give {best.speedup:.2f} times the"
            f" baseline's speed ({sure})"
        )
    elif near and recommended not in near:
        text = (
            f"keep window {near[0]}: the best, {recommended} ({speedup:.2f}x), is predicted to be less than"
            f" {CLOSE:.0%} faster ({sure})"
        )
    else:
        text = f"use window {recommended}: {speedup:.2f} times the baseline's speed ({sure})"
    return f"{text}; measure window {confirm} to confirm" if confirm is not None else text
