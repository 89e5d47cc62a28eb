"""Where steps begin in a stream, told from one request alone."""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

from specdec.metrics.arrivals import first_places
from specdec.runs.record import RequestRecord
from specdec.runs.remembered import remembered

BURST = 0.2
"""Share of the typical gap below which two chunks may belong to one step."""

BURSTS = 0.05
"""Share of such gaps from which a server is taken to send steps in several chunks. Fewer are late reads of a
busy machine, which would show a plain variant with more than one token per step."""


MULTIPLE = 0.1
"""Share of chunks with several tokens from which a server is taken to send a chunk per step."""


def typical_gap(times: Sequence[float]) -> float:
    """The gap between chunks that half of the time is spent in gaps no longer than: a median weighted by
    duration, seconds.

    Gaps inside a burst are many but take no time, so that they do not pull it down as they would a plain
    median. Of twenty gaps or more the longest fiftieth is left out: one long pause must not make bursts of
    everything else.
    """
    gaps = sorted(map(sub, times[1:], times))
    if len(gaps) >= 20:
        gaps = gaps[: -(len(gaps) // 50 + 1)]
    half = sum(gaps) / 2
    passed = 0.0
    for gap in gaps:
        passed += gap
        if passed >= half:
            return gap
    return 0.0


@remembered
def step_starts(record: RequestRecord) -> tuple[int, ...]:
    """Indexes of the chunks that begin a step, 0 among them.

    A server sends a step as one chunk, or each of its tokens as a chunk, a moment apart. It is taken to do
    the first if at least a share of ``MULTIPLE`` of the chunks brings several tokens, or if it told its steps
    itself (``token_source`` is ``server-timings``). Else a chunk that comes sooner than ``BURST`` times the
    typical gap after the one before it belongs to the same step, if at least a share of ``BURSTS`` of the
    gaps is so short.

    A client that gets too little processor time reads several chunks at once and takes them for a burst: on a
    plain variant, whose tokens per step must be 1, that shows.
    """
    times = record.chunk_times
    every = first_places(len(times))
    counts = record.chunk_tokens or ()
    multiple = sum(map((1).__lt__, map(sub, counts[1:], counts)))
    if record.token_source == "server-timings" or multiple > MULTIPLE * len(times):
        return every
    gaps = list(map(sub, times[1:], times))
    # Most streams have no short gap at all, which shows without sorting them, and a run has millions of gaps.
    if not gaps or min(gaps) >= BURST * max(gaps):
        return every
    shortest = BURST * typical_gap(times)
    if min(gaps) >= shortest:
        return every
    starts = (0, *(place for place, gap in enumerate(gaps, 1) if gap >= shortest))
    return starts if len(every) - len(starts) >= BURSTS * (len(every) - 1) else every
