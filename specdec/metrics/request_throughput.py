"""Request throughput: output tokens per second that one user gets."""

from __future__ import annotations

from specdec.metrics.definition import Metric
from specdec.runs.record import RequestRecord


def request_throughput(record: RequestRecord) -> float | None:
    """Output tokens over the time to the last of them: ``C / t_m``, tokens per second. None without tokens or
    a count.
    """
    if record.output_tokens is None or not record.chunk_times or record.chunk_times[-1] <= 0:
        return None
    return record.output_tokens / record.chunk_times[-1]


REQUEST_THROUGHPUT = Metric(
    name="RequestOutputThroughput",
    symbol="request throughput",
    unit="Count/Second",
    formula="C / t_m, output tokens per second",
    source="docs/metrics.md",
    better="larger",
    of=request_throughput,
)
