"""What a metric of many requests is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from specdec.metrics.definition import Unit
from specdec.metrics.objective import Objective
from specdec.runs.record import RequestRecord


@dataclass(frozen=True, slots=True)
class RunMetric:
    """A number that the measured requests of one variant yield together, given the run's objective if it has
    one. Fields as in ``Metric``.
    """

    name: str
    symbol: str
    unit: Unit
    formula: str
    source: str
    better: Literal["smaller", "larger", "neither"]
    of: Callable[[Sequence[RequestRecord], Objective | None], float | None]


def loaded_seconds(records: Sequence[RequestRecord]) -> float:
    """Seconds during which at least one of these requests was in flight: the union of their times from
    sending to the last token.

    Variants take turns, so that the time from first to last would count the others' turns too.
    """
    spans = sorted(
        (record.sent, record.sent + record.chunk_times[-1]) for record in records if record.chunk_times
    )
    total, until = 0.0, float("-inf")
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
