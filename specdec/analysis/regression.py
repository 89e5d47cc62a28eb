"""What got worse from one run to another: what a scheduled comparison should fail on, and nothing else.

"Undecided" is no regression: a run that can tell too little is not evidence that a service got slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec.errors import BadInputError, Mistake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdec.analysis.compare import Change
    from specdec.analysis.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Regression:
    """One row of the second run that is worse than in the first.

    Attributes:
        variant: of the second run, under its name in the first.
        row: test case, and load where a run has several.
        slower: whether it is shown to be slower; else it no longer counts.
        says: what got worse, as part of a sentence.
    """

    variant: str
    row: str
    slower: bool
    says: str

    def __str__(self) -> str:
        return f"{self.variant} on {self.row}: {self.says}"


def regressions(change: Change, first: Verdict, second: Verdict) -> tuple[Regression, ...]:
    """Rows that are shown to be slower, the day's own change taken out, and rows that counted in the first
    run and no longer do: other texts, failures, loops.

    Args:
        change: the two runs, compared.
        first: verdict on the first run.
        second: verdict on the second, its variants under the names they have in the first.
    """
    return (*_slower(change), *_lost(first, second))


def require_decidable(change: Change) -> None:
    """Refuses a comparison that could never find a regression, so that a check on it is not always green.

    Raises:
        BadInputError: no row has a reference that ran in both.
    """
    if any(row.against_day for row in change.rows):
        return
    reference = change.reference
    problem = (
        f"has no variant other than {reference} that ran in both"
        if reference
        else f"has no baseline with the same settings as in run {change.first.manifest.run}"
    )
    raise BadInputError(
        "compare",
        [
            Mistake(
                "run",
                change.second.manifest.run,
                f"{problem}, so a regression could not be found",
                "Compare runs with one unchanged baseline and one variant in common",
            )
        ],
    )


def _slower(change: Change) -> Iterator[Regression]:
    for row in change.rows:
        if row.against_day and row.decision == "hurts" and row.ratio is not None:
            says = f"slower, {row.ratio.value:.2f}x the first run's speed"
            yield Regression(row.variant, row.name, True, says)


def _lost(first: Verdict, second: Verdict) -> Iterator[Regression]:
    counted = {(row.variant, row.test_case) for row in first.comparisons if row.best_baseline and row.counts}
    for row in second.comparisons:
        if row.best_baseline and not row.counts and (row.variant, row.test_case) in counted:
            why = "; ".join(reason.says for reason in row.reasons if reason.withholds)
            yield Regression(row.variant, row.test_case, False, f"no longer counts: {why}")
