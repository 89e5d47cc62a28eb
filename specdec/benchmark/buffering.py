"""Whether the bytes of an answer came in buffers of one size: then something on the way held them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

SMALLEST = 1024
"""Bytes below which equal arrivals are equal events and no buffers."""

LEAST = 3
"""Arrivals that must show the size, without the first, which has the headers, and the last, which has the
rest."""

SHARE = 0.8
"""Of the arrivals in between, those that must have the size."""

TOGETHER = 0.001
"""Seconds within which reads are packets of one buffer."""


def buffer_bytes(reads: Sequence[tuple[float, int]]) -> int | None:
    """The size of the buffers, bytes; None where the arrivals do not show one.

    Args:
        reads: (``perf_counter``, bytes) of each read from the socket.
    """
    sizes: list[int] = []
    latest = float("-inf")
    for stamp, size in reads:
        if stamp - latest < TOGETHER:
            sizes[-1] += size
        else:
            sizes.append(size)
        latest = stamp
    inner = sizes[1:-1]
    if len(inner) < LEAST:
        return None
    size, count = Counter(inner).most_common(1)[0]
    return size if size >= SMALLEST and count >= SHARE * len(inner) else None
