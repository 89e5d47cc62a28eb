"""Compares drafts, each at its own best window: cheap ones that agree rarely, costly ones that agree."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.analysis.advice import DraftRow, WindowAdvice
from specdec.analysis.constant_acceptance import acceptance_for
from specdec.catalog.conventions import Convention


def compare_drafts(advice: Sequence[WindowAdvice], convention: Convention) -> tuple[DraftRow, ...]:
    """The draft table, fastest first, on the mix of test cases. Empty where two drafts have one name.

    Args:
        advice: on every draft.
        convention: of the stack.
    """
    mixes = [one for one in advice if one.test_case is None]
    if len({mix.draft for mix in mixes}) < len(mixes):
        return ()
    ordered = sorted(mixes, key=lambda mix: -mix.predicted_speedup)
    rows: list[DraftRow] = []
    for place, mix in enumerate(ordered):
        point = next((point for point in mix.curve if point.window == mix.recommended), None)
        goal = ordered[0].predicted_speedup
        match = (
            acceptance_for(convention, goal, slope=mix.draft_cost, fixed=mix.step_overhead) if place else None
        )
        rows.append(
            DraftRow(
                draft=mix.draft or "(none named)",
                variant=mix.variants[0],
                acceptance=mix.acceptance,
                draft_cost=mix.draft_cost,
                window=mix.recommended,
                tokens_per_step=point.tokens_per_step if point else 1.0,
                speedup=mix.predicted_speedup,
                acceptance_to_match=match,
            )
        )
    return tuple(rows)
