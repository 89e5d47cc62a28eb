"""TPOT: time per output token after the first chunk."""

from __future__ import annotations

from specdec.metrics.definition import Metric
from specdec.runs.record import RequestRecord


def tokens_after_first_chunk(record: RequestRecord) -> int | None:
    """Output tokens that came after the first chunk, ``C_m - C_1``.

    Where the server counts only at the end, ``C_1`` is taken as 1: prefill yields one token, and a server
    that streams sends it at once. ``token_source`` tells such records apart. None when no count is known.
    """
    if record.chunk_tokens is not None:
        return record.chunk_tokens[-1] - record.chunk_tokens[0] if record.chunk_tokens else None
    return None if record.output_tokens is None else record.output_tokens - 1


def tpot(record: RequestRecord) -> float | None:
    """Seconds per token between the first and the last chunk: ``(t_m - t_1) / (C_m - C_1)``.

    The first chunk is left out on both sides, so that prefill does not count, and a chunk of several tokens
    counts as several. None when fewer than two chunks arrived, when the counts are unknown, or when no token
    followed the first chunk.
    """
    tokens = tokens_after_first_chunk(record)
    if tokens is None or tokens <= 0 or len(record.chunk_times) < 2:
        return None
    return (record.chunk_times[-1] - record.chunk_times[0]) / tokens


TPOT = Metric(
    name="TimePerOutputToken",
    symbol="TPOT",
    unit="Seconds",
    formula="(t_m - t_1) / (C_m - C_1)",
    source="docs/metrics.md",
    better="smaller",
    of=tpot,
)
