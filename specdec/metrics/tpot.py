"""TPOT: time per output token after the first arrival."""

from __future__ import annotations

from specdec.metrics.arrivals import FASTEST, first_arrival, last_arrival
from specdec.metrics.definition import Metric
from specdec.runs.record import TOTAL_ONLY, RequestRecord
from specdec.runs.remembered import remembered


def tokens_after_first_chunk(record: RequestRecord) -> int | None:
    """Output tokens that came after the first chunk, ``C_m - C_1``.

    Where the server counts only at the end, ``C_1`` is taken as 1: prefill yields one token, and a server
    that streams sends it at once. The client calls such counts ``final-usage`` only where that fits what
    came; ``total-only`` says that it does not. None when no count is known.
    """
    if record.chunk_tokens is not None:
        return record.chunk_tokens[-1] - record.chunk_tokens[0] if record.chunk_tokens else None
    if record.output_tokens is None or record.token_source == TOTAL_ONLY:
        return None
    return record.output_tokens - 1


@remembered
def tpot(record: RequestRecord) -> float | None:
    """Seconds per token between the first and the last arrival: ``(t_m - t_1) / (C_m - C_1)``.

    Everything that shares the first arrival is left out on both sides, so that prefill does not count, and
    several tokens at once count as several. None when all came in one arrival or too fast to have been made
    meanwhile, when the counts are unknown, or when no token followed the first arrival.
    """
    times = record.chunk_times
    if len(times) < 2:
        return None
    first, last = first_arrival(record), last_arrival(record)
    if last <= first:
        return None
    if record.chunk_tokens is not None:
        tokens = record.chunk_tokens[-1] - record.chunk_tokens[first]
    else:
        tokens = tokens_after_first_chunk(record) or 0
    if tokens <= 0:
        return None
    value = (times[last] - times[0]) / tokens
    return value if value >= FASTEST else None


TPOT = Metric(
    name="TimePerOutputToken",
    symbol="TPOT",
    unit="Seconds",
    formula="(t_m - t_1) / (C_m - C_1)",
    source="docs/metrics.md",
    better="smaller",
    of=tpot,
)
