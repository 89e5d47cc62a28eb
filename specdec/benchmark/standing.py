"""How a run stands while it goes on: medians per variant, in half a line. Nothing is decided from them."""

from __future__ import annotations

from bisect import insort
from statistics import median

from specdec.metrics import TOKENS_PER_STEP, TPOT
from specdec.runs.record import RequestRecord


class Standing:
    """Running medians of TPOT and of tokens per step of every variant, over the requests that ended ok."""

    def __init__(self) -> None:
        self._tpot: dict[str, list[float]] = {}
        self._steps: dict[str, list[float]] = {}

    def add(self, record: RequestRecord | None) -> None:
        """Takes one more request into account; warm-ups and failures are passed over."""
        if record is None or record.warmup or record.outcome != "ok":
            return
        value = TPOT.of(record)
        if value is not None:
            insort(self._tpot.setdefault(record.variant, []), value)
        steps = TOKENS_PER_STEP.of(record)
        if steps is not None:
            insort(self._steps.setdefault(record.variant, []), steps)

    def __str__(self) -> str:
        """For example ``; TPOT baseline 37.2 ms, speculative 15.2 ms (5.1 tokens/step)``, or nothing yet."""
        shown: list[str] = []
        for variant, values in self._tpot.items():
            steps = median(self._steps.get(variant) or [1.0])
            more = f" ({steps:.1f} tokens/step)" if steps > 1 else ""
            shown.append(f"{variant} {1000 * median(values):.3g} ms{more}")
        return f"; TPOT {', '.join(shown)}" if shown else ""
