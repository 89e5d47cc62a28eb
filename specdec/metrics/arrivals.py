"""Arrivals: what reached the client at one moment, however many events it was written as.

A proxy that hands on whole buffers, a client that got no processor time, and a server that writes several
events at once all make chunks share an arrival. When each of them was made cannot be told any more, so that
arrivals, and not chunks, are the unit of time.
"""

from __future__ import annotations

from functools import lru_cache
from operator import sub

from specdec.runs.record import RequestRecord
from specdec.runs.remembered import remembered

TOGETHER = 0.2
"""Share of the mean gap between chunks below which two chunks share an arrival: steps vary by less."""

TOGETHER_SECONDS = 0.002
"""No gap above this is inside an arrival, whatever the mean: packets of one write come microseconds apart,
and one long pause must not join all other chunks."""

FASTEST = 50e-6
"""Seconds per token below which a stream was not being made while it came: it was held back and came at once.
The fastest services known are below 5,000 tokens per second and stream, which is 200 microseconds."""


def shortest_gap(record: RequestRecord) -> float:
    """Seconds between two chunks from which on they are two arrivals."""
    times = record.chunk_times
    if len(times) < 2:
        return 0.0
    return min(TOGETHER * (times[-1] - times[0]) / (len(times) - 1), TOGETHER_SECONDS)


def first_arrival(record: RequestRecord) -> int:
    """Index of the last chunk that shares the first arrival. The record has a chunk."""
    starts = arrivals(record)
    return (starts[1] if len(starts) > 1 else len(record.chunk_times)) - 1


def last_arrival(record: RequestRecord) -> int:
    """Index of the first chunk that shares the last arrival. The record has a chunk."""
    return arrivals(record)[-1]


@lru_cache(maxsize=4096)
def first_places(count: int) -> tuple[int, ...]:
    """0, 1, 2, ...: one tuple for the thousands of streams of one length."""
    return tuple(range(count))


@remembered
def arrivals(record: RequestRecord) -> tuple[int, ...]:
    """Indexes of the chunks that begin an arrival, ascending."""
    times, least = record.chunk_times, shortest_gap(record)
    gaps = list(map(sub, times[1:], times))
    shortest = min(gaps, default=least)
    if shortest >= least and (shortest > 0 or not gaps):
        return first_places(len(times))
    return (0, *(j for j, gap in enumerate(gaps, 1) if gap and gap >= least))


def came_at_once(record: RequestRecord) -> bool:
    """Whether several tokens came in one arrival, or faster than any decoder makes them: the answer was held
    back, and how long each token took cannot be told.
    """
    times, tokens = record.chunk_times, record.output_tokens
    if not times or (tokens or len(times)) < 2:
        return False
    return last_arrival(record) == 0 or times[-1] - times[0] < FASTEST * ((tokens or len(times)) - 1)


def tokens_per_arrival(record: RequestRecord) -> float | None:
    """Tokens after the first arrival over the arrivals they came in. None without counts per chunk or without
    a second arrival.

    1 on a plain variant whose tokens are sent as they are made. More says that something between the decoder
    and the client holds tokens back, or that the client was late.
    """
    starts = arrivals(record)
    if record.chunk_tokens is None or len(starts) < 2:
        return None
    return (record.chunk_tokens[-1] - record.chunk_tokens[starts[1] - 1]) / (len(starts) - 1)
