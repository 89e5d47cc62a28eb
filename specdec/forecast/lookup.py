"""Look-up drafting, replayed as llama.cpp's ``ngram_simple`` does it (common/ngram-map.cpp, b11549).

The last tokens are looked for in the text before them, latest place first, and what followed there is
proposed. It depends on the text alone, so a logged answer tells every proposal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specdec.analysis.replay import Counts

LONGEST = 15
"""Largest window that is replayed."""


def matched_tokens(window: int, most: int) -> int:
    """Length of the run that is looked up for a window: llama.cpp proposes nothing where the window is
    shorter than the run.
    """
    return min(most, window)


@dataclass(frozen=True, slots=True)
class Matches:
    """What is found at each position of an answer, for one length of run.

    Attributes:
        length: tokens that are looked up.
        before: tokens before the last one that is known there.
        room: tokens between the place found and the end of the text; 0 where nothing is found.
        right: of the tokens that followed there, how many the target went on to write.
    """

    length: int
    before: Counts
    room: Counts
    right: Counts

    def proposed(self, window: int) -> Counts:
        """Tokens proposed at each position with a window."""
        copied = np.minimum(window, self.room)
        enough = (copied >= self.length) & (self.before > self.length + window + 1)
        result: Counts = np.where(enough, copied, 0)
        return result

    def kept(self, window: int) -> Counts:
        """Of these, the ones that are right up to the first wrong one."""
        result: Counts = np.minimum(self.right, self.proposed(window))
        return result


def find_matches(prompt: Sequence[int], answer: Sequence[int], length: int) -> Matches:
    """Finds what a run of ``length`` tokens proposes at every position of an answer after its first token.

    Args:
        prompt: tokens of the prompt.
        answer: tokens of the answer.
        length: tokens that are looked up.
    """
    tokens = np.asarray([*prompt, *answer], dtype=np.int64)
    before = np.arange(len(prompt), len(tokens) - 1)
    if not len(before):
        empty: Counts = np.zeros(0, dtype=np.int64)
        return Matches(length, empty, empty, empty)
    keys = np.zeros(max(0, len(tokens) - length + 1), dtype=np.int64)
    for shift in range(length):
        keys = keys * 1_000_003 + tokens[shift : shift + len(keys)]
    names: list[int] = keys.tolist()
    latest: dict[int, int] = {}
    place = np.zeros(len(before), dtype=np.int64)
    # Place 0 means none, so that a match at the very beginning is passed over, as the engine does.
    inserted = 1
    for number, known in enumerate(before.tolist()):
        while inserted <= known - length - 1:
            latest[names[inserted]] = inserted
            inserted += 1
        if known - length + 1 >= 0:
            place[number] = latest.get(names[known - length + 1], 0)
    room = np.where(place > 0, before - (place + length), 0)
    right = np.zeros(len(before), dtype=np.int64)
    going = place > 0
    for ahead in range(LONGEST):
        source, target = place + length + ahead, before + 1 + ahead
        inside = going & (ahead < room) & (target < len(tokens))
        going = inside & (
            tokens[np.minimum(source, len(tokens) - 1)] == tokens[np.minimum(target, len(tokens) - 1)]
        )
        right += going
    return Matches(length, before, room, right)
