"""Look-up drafting, replayed as llama.cpp's ``ngram_simple`` does it (common/ngram-map.cpp, b11549).

The last tokens are searched in the text before them, latest place first, and the tokens that followed there
are proposed. It depends on the text alone, so a logged answer tells every proposal.
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
    if not len(before) or len(tokens) < length:
        none: Counts = np.zeros(len(before), dtype=np.int64)
        return Matches(length, before, none, none)
    keys = np.zeros(len(tokens) - length + 1, dtype=np.int64)
    for shift in range(length):
        keys = keys * 1_000_003 + tokens[shift : shift + len(keys)]
    place = _latest(keys, before - length + 1)
    room = np.where(place > 0, before - (place + length), 0)
    right = np.zeros(len(before), dtype=np.int64)
    (matched,) = np.nonzero(place)
    ahead = np.arange(LONGEST)
    source = (place + length)[matched, None] + ahead
    target = (before + 1)[matched, None] + ahead
    inside = (ahead < room[matched, None]) & (target < len(tokens))
    last = len(tokens) - 1
    alike = inside & (tokens[np.minimum(source, last)] == tokens[np.minimum(target, last)])
    right[matched] = np.logical_and.accumulate(alike, axis=1).sum(axis=1)
    return Matches(length, before, room, right)


def _latest(keys: Counts, runs: Counts) -> Counts:
    """The latest place with the same run of tokens as each of ``runs``, at least two places before it, since
    the engine leaves out the last token; 0 where there is none. A match at place 0 is passed over, as the
    engine does.

    Args:
        keys: one number per place that stands for the run that begins there.
        runs: places.
    """
    order = np.argsort(keys, kind="stable")
    alike = keys[order[1:]] == keys[order[:-1]]
    previous = np.zeros(len(keys), dtype=np.int64)
    previous[order[1:][alike]] = order[:-1][alike]
    earlier = previous[previous]
    place = np.maximum(runs, 0)
    result: Counts = np.where(previous[place] == place - 1, earlier[place], previous[place])
    result[runs < 1] = 0
    return result
