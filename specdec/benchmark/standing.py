"""The progress of a run: running medians per variant, in half a line. Nothing is decided from them."""

from __future__ import annotations

from bisect import insort
from statistics import geometric_mean, median

from specdec.metrics import TOKENS_PER_STEP, TPOT
from specdec.metrics.tokens_per_step import joins_steps
from specdec.runs.record import EXACT, RequestRecord


class Standing:
    """Running medians of TPOT and of tokens per step of every variant, over the requests that ended ok, and
    how the other variants compare with the baseline so far.

    Args:
        baseline: name of the variant that the others are compared with; None compares nothing.
    """

    def __init__(self, baseline: str | None = None) -> None:
        self._baseline = baseline
        self._tpot: dict[str, list[float]] = {}
        self._steps: dict[str, list[float]] = {}
        self._by_case: dict[str, dict[str, list[float]]] = {}

    def add(self, record: RequestRecord | None) -> None:
        """Takes one more request into account; warm-ups, failures and the self-check are passed over."""
        if record is None or record.warmup or record.outcome != "ok" or record.lane != EXACT:
            return
        value = TPOT.of(record)
        if value is not None:
            insort(self._tpot.setdefault(record.variant, []), value)
            insort(self._by_case.setdefault(record.variant, {}).setdefault(record.test_case, []), value)
        steps = TOKENS_PER_STEP.of(record)
        if steps is not None:
            insort(self._steps.setdefault(record.variant, []), steps)

    def __str__(self) -> str:
        """For example ``; TPOT baseline 37.2 ms, speculative 15.2 ms (5.1 tokens/step), so far 2.44x, faster
        on 5 of 8 test cases``, or nothing yet.
        """
        shown = [
            f"{variant} {1000 * median(values):.3g} ms{self._more(variant)}"
            for variant, values in self._tpot.items()
        ]
        return f"; TPOT {', '.join(shown)}" if shown else ""

    def _more(self, variant: str) -> str:
        steps = 1.0 if self._joined() else median(self._steps.get(variant) or [1.0])
        return (f" ({steps:.1f} tokens/step)" if steps > 1 else "") + self._against_the_baseline(variant)

    def _joined(self) -> bool:
        """Whether the server of the plain variant joins steps, so that none of its kind can be told."""
        return len(self._tpot) > 1 and joins_steps(self._steps.get(self._baseline or "", ()))

    def _against_the_baseline(self, variant: str) -> str:
        """Mean over test cases of the ratio of medians, and in how many the variant is faster."""
        cases, others = self._by_case.get(self._baseline or "", {}), self._by_case.get(variant, {})
        ratios = [median(cases[case]) / median(others[case]) for case in others if case in cases]
        if variant == self._baseline or not ratios:
            return ""
        faster = sum(ratio > 1 for ratio in ratios)
        plural = "" if len(ratios) == 1 else "s"
        return (
            f", so far {geometric_mean(ratios):.2f}x, faster on {faster} of {len(ratios)} test case{plural}"
        )
