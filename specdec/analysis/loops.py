"""Degenerate text: an answer that ends in a loop."""

from __future__ import annotations

import zlib
from functools import lru_cache

SHARE = 0.5
"""Part of the text, from its end, that must be one piece over and over."""

TIMES = 4
"""Repetitions of the piece in that part, at least."""

SHORTEST = 40
"""Characters below which a text is too short to tell a loop from a short answer."""

_COMPRESSED = 0.3


@lru_cache(maxsize=4096)
def loops(text: str) -> bool:
    """Whether the second half of a text repeats one piece, at least ``TIMES`` times and to its end.

    A piece of any length counts, so a model that repeats one paragraph is found like one that repeats one
    word. Ordinary repetition (a list, a table, a refrain) varies within the half and is none. Kept, since
    right variants and repeats say the same.
    """
    half = text[-int(len(text) * SHARE) :]
    if len(text) < SHORTEST:
        return False
    raw = half.encode("utf-8", "replace")
    # A loop compresses to little. The period is looked for only then, since that takes longer.
    if len(raw) > 200 and len(zlib.compress(raw, 1)) > _COMPRESSED * len(raw):
        return False
    return _period(half) * TIMES <= len(half)


def _period(text: str) -> int:
    """The smallest ``p`` with ``text[i] == text[i - p]`` all along (Knuth, Morris and Pratt's prefix
    function).
    """
    prefix = [0] * len(text)
    length = 0
    for index in range(1, len(text)):
        while length and text[index] != text[length]:
            length = prefix[length - 1]
        if text[index] == text[length]:
            length += 1
        prefix[index] = length
    return len(text) - prefix[-1]
