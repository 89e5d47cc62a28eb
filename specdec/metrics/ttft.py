"""TTFT: time to first token."""

from __future__ import annotations

from specdec.metrics.definition import Metric
from specdec.runs.record import RequestRecord


def ttft(record: RequestRecord) -> float | None:
    """Seconds from sending to the first chunk that brought tokens: ``t_1``. None when none came.

    Sending is when the request was handed to an open connection; a chunk of reasoning counts, an event that
    only names the role does not.
    """
    return record.chunk_times[0] if record.chunk_times else None


TTFT = Metric(
    name="TimeToFirstToken",
    symbol="TTFT",
    unit="Seconds",
    formula="t_1",
    source="docs/metrics.md",
    better="smaller",
    of=ttft,
)
