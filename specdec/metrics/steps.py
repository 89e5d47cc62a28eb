"""Where steps begin in a stream, told from one request alone."""

from __future__ import annotations

from itertools import pairwise

from specdec.benchmark.records import RequestRecord

BURST = 0.2
"""Share of the typical gap below which two chunks belong to one step."""


def typical_gap(times: tuple[float, ...]) -> float:
    """The gap between chunks that half of the time is spent in gaps no longer than: a median weighted by duration, seconds.

    Gaps inside a burst are many but take no time, so that they do not pull it down as they would a plain median. Of twenty gaps
    or more the longest fiftieth is left out: one long pause must not make bursts of everything else.
    """
    gaps = sorted(b - a for a, b in pairwise(times))
    if len(gaps) >= 20:
        gaps = gaps[: -(len(gaps) // 50 + 1)]
    half = sum(gaps) / 2
    passed = 0.0
    for gap in gaps:
        passed += gap
        if passed >= half:
            return gap
    return 0.0


def step_starts(record: RequestRecord) -> tuple[int, ...]:
    """Indexes of the chunks that begin a step, 0 among them.

    A server may send the tokens of one step as several chunks, a moment apart. A chunk that comes sooner than ``BURST`` times
    the typical gap after the one before it belongs to the same step. Where the server itself told the steps
    (``token_source`` is ``server-timings``) every chunk is one.
    """
    times = record.chunk_times
    if record.token_source == "server-timings":
        return tuple(range(len(times)))
    shortest = BURST * typical_gap(times)
    return tuple(j for j in range(len(times)) if j == 0 or times[j] - times[j - 1] >= shortest)
