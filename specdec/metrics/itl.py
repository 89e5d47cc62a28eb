"""ITL: inter-token latency, amortised over the tokens of an arrival."""

from __future__ import annotations

from operator import sub

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
    starts, times, counts = arrivals(record), record.chunk_times, record.chunk_tokens
    if len(starts) < len(times):
        times = tuple(times[j] for j in starts)
        counts = (*(counts[j - 1] for j in starts[1:]), counts[-1])
    sizes = list(map(sub, counts[1:], counts))
    return [(gap / size, size) for gap, size in zip(map(sub, times[1:], times), sizes, strict=True)]


def itl(record: RequestRecord) -> float | None:
    """Median over the tokens of one request of the amortised inter-token latency, seconds; None without
    per-chunk counts.
    """
    times, counts = record.chunk_times, record.chunk_tokens
    if (
        counts
        and counts[-1] - counts[0] == len(counts) - 1
        and len(arrivals(record)) == len(times) > 1
        and not came_at_once(record)
    ):
        # One token each, as of every plain stream: the middle one, without sorting pairs.
        return sorted(map(sub, times[1:], times))[len(times) // 2 - 1]
    samples = itl_samples(record)
    half, passed = sum(tokens for _, tokens in samples) / 2, 0
    for value, tokens in sorted(samples):
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
