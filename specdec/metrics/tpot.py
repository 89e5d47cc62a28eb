"""TPOT: time per output token after the first chunk."""

from __future__ import annotations

from specdec.benchmark.records import RequestRecord
from specdec.metrics.definition import Metric


def tpot(record: RequestRecord) -> float | None:
    """Seconds per token between the first and the last chunk: ``(t_m - t_1) / (C_m - C_1)``.

    The first chunk is left out on both sides, so that prefill does not count, and a chunk of several tokens counts as
    several. None when fewer than two chunks arrived, when the counts are unknown, or when no token followed the first chunk.
    """
    if record.chunk_tokens is None or len(record.chunk_times) < 2:
        return None
    tokens = record.chunk_tokens[-1] - record.chunk_tokens[0]
    return (record.chunk_times[-1] - record.chunk_times[0]) / tokens if tokens > 0 else None


TPOT = Metric(
    name="TimePerOutputToken",
    symbol="TPOT",
    unit="Seconds",
    formula="(t_m - t_1) / (C_m - C_1)",
    source="docs/metrics.md",
    better="smaller",
    of=tpot,
)
