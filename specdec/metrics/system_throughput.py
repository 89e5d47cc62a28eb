"""System throughput: output tokens per second of one variant's service under the load of the run."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.metrics.of_run import RunMetric, loaded_seconds
from specdec.runs.record import RequestRecord


def system_throughput(records: Sequence[RequestRecord], objective: object = None) -> float | None:
    """Output tokens of the requests that ended ``ok`` over the seconds in which any was in flight. None
    without tokens.

    The records are all those of one variant at one load: what failed took its time too. Unmeasured requests
    that held the load up give the tokens that came before the last measured request of their block had
    ended; without them, a load that was held would look like less.
    """
    del objective
    measured = [record for record in records if not record.warmup]
    seconds = loaded_seconds(measured)
    tokens = sum(float(record.output_tokens or 0) for record in measured if record.outcome == "ok")
    ends: dict[int, float] = {}
    for record in measured:
        if record.chunk_times:
            ends[record.block] = max(ends.get(record.block, 0.0), record.sent + record.chunk_times[-1])
    tokens += sum(tokens_by(record, ends.get(record.block, 0.0)) for record in records if record.warmup)
    return tokens / seconds if tokens and seconds > 0 else None


def tokens_by(record: RequestRecord, end: float) -> float:
    """Output tokens of a request that had come by a time of its run's clock."""
    times = record.chunk_times
    came = sum(record.sent + time <= end for time in times)
    if came == 0:
        return 0.0
    if record.chunk_tokens is not None:
        return float(record.chunk_tokens[came - 1])
    return (record.output_tokens or len(times)) * came / len(times)


SYSTEM_THROUGHPUT = RunMetric(
    name="SystemThroughput",
    symbol="system throughput",
    unit="Count/Second",
    formula="sum of C / seconds with a request in flight",
    source="docs/metrics.md",
    better="larger",
    of=system_throughput,
)
