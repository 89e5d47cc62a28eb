"""The part of the verdict that is advice: which window, which draft. Units and ratios as in
``specdec.analysis.verdict``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPoint:
    """One window on the predicted curve.

    Attributes:
        window: num_speculative_tokens.
        tokens_per_step: predicted.
        step_cost: predicted step time over a baseline step.
        tpot: predicted, seconds.
        low, high: 5th and 95th percentile of the prediction, over prompts and shapes of the step's cost.
        speedup: baseline TPOT over ``tpot``.
        measured_tpot: seconds, where this window was measured.
    """

    window: int
    tokens_per_step: float
    step_cost: float
    tpot: float
    low: float
    high: float
    speedup: float
    measured_tpot: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAdvice:
    """Which window to use for one draft and one test case, or for the mix of all.

    Attributes:
        variants: the speculative variants that were measured with this draft, one per window.
        test_case: None for the mix, every test case weighing the same.
        draft: draft model, or what the engine drafts with.
        convention: name of the step arithmetic, ``textbook`` or ``nxdi-fused``.
        measured_windows: the windows that were measured, ascending, in the order of ``variants``.
        baseline_tpot: seconds, the reference of ``speedup``.
        acceptance: pooled conditional acceptance ``a``.
        draft_cost: ``c``, cost of one more window position over a baseline step: draft and extra verification
            together.
        step_overhead: fixed part of a speculative step over a baseline step; 0 unless two windows were
            measured, since one cannot tell it.
        undrafted_share: share of tokens emitted by steps that had nothing to verify; 0 for a draft model.
        break_even: constant acceptance at which the first measured window starts to pay; None if no
            acceptance would.
        curve: predicted, windows ascending.
        recommended: window to use: the best, or a measured one that is hardly slower; None for "off".
        predicted_speedup: at the recommended window; 1 for "off".
        confidence: share of draws in which the recommendation is within 3% of the best choice, "off"
            included, under the shape of step cost that speaks most against it.
        confirm: the window to compile and measure next, the one that tells most; None when nothing is left to
            confirm.
        says: the advice in one sentence.
    """

    variants: tuple[str, ...]
    test_case: str | None
    draft: str | None
    convention: str
    measured_windows: tuple[int, ...]
    baseline_tpot: float
    acceptance: float
    draft_cost: float
    step_overhead: float
    undrafted_share: float
    break_even: float | None
    curve: tuple[WindowPoint, ...]
    recommended: int | None
    predicted_speedup: float
    confidence: float
    confirm: int | None
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRow:
    """One draft at its best window, on the mix of test cases.

    Attributes:
        draft, variant: which draft, measured as which variant.
        acceptance, draft_cost: ``a`` and ``c``, as in ``WindowAdvice``.
        window: best predicted window; None for "off".
        tokens_per_step, speedup: predicted there.
        acceptance_to_match: constant acceptance this draft would need for the best row's speed-up at its own
            best window; None for the best row itself, or if no acceptance would do.
    """

    draft: str
    variant: str
    acceptance: float
    draft_cost: float
    window: int | None
    tokens_per_step: float
    speedup: float
    acceptance_to_match: float | None
