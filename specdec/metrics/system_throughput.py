"""System throughput: output tokens per second of one variant's service under the load of the run."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.metrics.of_run import RunMetric, loaded_seconds
from specdec.runs.record import RequestRecord


def system_throughput(records: Sequence[RequestRecord], objective: object = None) -> float | None:
    """Output tokens of the requests that ended ``ok`` over the seconds in which any was in flight. None
    without tokens.

    The records are all those of one variant, warm-up left out: what failed took its time too.
    """
    del objective
    seconds = loaded_seconds(records)
    tokens = sum(record.output_tokens or 0 for record in records if record.outcome == "ok")
    return tokens / seconds if tokens and seconds > 0 else None


SYSTEM_THROUGHPUT = RunMetric(
    name="SystemThroughput",
    symbol="system throughput",
    unit="Count/Second",
    formula="sum of C / seconds with a request in flight",
    source="docs/metrics.md",
    better="larger",
    of=system_throughput,
)
