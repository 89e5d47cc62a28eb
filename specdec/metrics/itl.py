"""ITL: inter-token latency, amortised over the tokens of an arrival."""

from __future__ import annotations

from specdec.metrics.arrivals import arrivals, came_at_once
from specdec.metrics.definition import Metric
from specdec.runs.record import RequestRecord


def itl_samples(record: RequestRecord) -> list[tuple[float, int]]:
    """(seconds per token, tokens) of each arrival after the first: ``(t_j - t_(j-1)) / (C_j - C_(j-1))``,
    ``C_j - C_(j-1)`` times.

    Tokens that arrive together are each given their share of the wait. The mean over tokens is TPOT by
    construction; only the spread says more. Empty where the server does not count per chunk,
    or the answer came at once.
    """
    if record.chunk_tokens is None or came_at_once(record):
        return []
    starts = arrivals(record)
    times = [record.chunk_times[j] for j in starts]
    counts = [record.chunk_tokens[j - 1] for j in starts[1:]] + [record.chunk_tokens[-1]]
    return [
        ((times[j] - times[j - 1]) / (counts[j] - counts[j - 1]), counts[j] - counts[j - 1])
        for j in range(1, len(times))
    ]


def itl(record: RequestRecord) -> float | None:
    """Median over the tokens of one request of the amortised inter-token latency, seconds; None without
    per-chunk counts.
    """
    samples = sorted(itl_samples(record))
    half = sum(tokens for _, tokens in samples) / 2
    passed = 0
    for value, tokens in samples:
        passed += tokens
        if passed >= half:
            return value
    return None


ITL = Metric(
    name="InterTokenLatency",
    symbol="ITL",
    unit="Seconds",
    formula="median over tokens of (t_j - t_(j-1)) / (C_j - C_(j-1))",
    source="docs/metrics.md",
    better="smaller",
    of=itl,
)
