"""Replay of verification: one text tells the steps of every window.

A greedy proposal is accepted exactly if it is the token that the target wrote. So once it is known at which
positions of a text a draft names the next token, the steps of any window follow without a target: from where
a step begins, the proposals up to the first wrong one are kept, and the target adds a token of its own
(Leviathan et al., arXiv 2211.17192, algorithm 1, at temperature 0).

Positions count the tokens after the first one, which prefill emits. An average over steps cannot replace the
positions: long steps hide the acceptance of easy stretches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]
"""Per position, whether the draft names the token that stands there."""

Counts = NDArray[np.int64]
UNKNOWN = -1


def runs(bits: Bits, lengths: Counts | None = None) -> Counts:
    """Proposals that would be kept in a row from each position, however large the window: the distance to the
    next wrong one, or to the end.

    Args:
        bits: of one text, or of texts one after the other.
        lengths: positions of each text; by default they are one.
    """
    wrong = np.flatnonzero(~bits)
    places = np.arange(len(bits))
    following = np.searchsorted(wrong, places)
    ends = np.append(wrong, len(bits))[following]
    if lengths is not None:
        ends = np.minimum(ends, np.repeat(np.cumsum(lengths), lengths))
    result: Counts = ends - places
    return result


def begins(kept: Sequence[int] | Counts, usable: int) -> list[int]:
    """Positions at which a step begins.

    Args:
        kept: proposals that are kept from each position, see ``runs``; where a draft proposes less, no more
            than it proposes.
        usable: proposals of a window that can be accepted, see ``Convention.usable``.
    """
    following: list[int] = (np.minimum(kept, usable) + np.arange(1, len(kept) + 1)).tolist()
    places: list[int] = []
    place, length = 0, len(following)
    while place < length:
        places.append(place)
        place = following[place]
    return places


def steps(kept: Sequence[int] | Counts, usable: int) -> list[int]:
    """Tokens that each step emits, in order; the length limit cuts the last one. See ``begins``."""
    sizes: list[int] = np.diff([*begins(kept, usable), len(kept)]).tolist()
    return sizes


def counted_steps(kept: Counts, lengths: Counts, usable: Sequence[int]) -> tuple[Counts, Counts]:
    """Steps of each text at each window, and of these the ones of one token: what ``steps`` has, counted for
    many texts and windows at once.

    Args:
        kept: of the texts one after the other, see ``steps``.
        lengths: positions of each text.
        usable: of each window, see ``steps``.

    Returns:
        Two tables with one row per text and one column per window.
    """
    shape = len(lengths), len(usable)
    count, single = (np.zeros(shape[0] * shape[1], dtype=np.int64) for _ in range(2))
    ends = np.repeat(np.cumsum(lengths), shape[1])
    places = ends - np.repeat(lengths, shape[1])
    limits = np.tile(np.asarray(usable, dtype=np.int64), shape[0])
    lanes = np.flatnonzero(places < ends)
    places, ends, limits = places[lanes], ends[lanes], limits[lanes]
    while len(lanes):
        # The length limit cuts the last step.
        sizes = np.minimum(np.minimum(kept[places], limits) + 1, ends - places)
        count[lanes] += 1
        single[lanes] += sizes == 1
        places = places + sizes
        going = places < ends
        if not going.all():
            lanes, places, ends, limits = lanes[going], places[going], ends[going], limits[going]
    return count.reshape(shape), single.reshape(shape)


def expected_steps(chance: NDArray[np.float64], usable: int) -> float:
    """Steps that are expected where each proposal is kept by chance, exactly: the sum of the chances that a
    step begins at a position.

    Args:
        chance: that the proposal at each position is kept, given the text.
        usable: proposals of a window that can be accepted, see ``Convention.usable``.
    """
    length = len(chance)
    begins = np.zeros(length + 1)
    begins[0] = 1.0
    for place in range(length):
        here = chance[place : place + usable]
        # A step ends where a proposal is wrong, or behind the target's own token after a full window.
        ends = np.concatenate([[1.0], np.cumprod(here)])
        ends[:-1] *= 1 - here
        if place + usable >= length:
            # The length limit cuts what would go on.
            ends[-2] += ends[-1]
            ends = ends[:-1]
        begins[place + 1 : place + 1 + len(ends)] += begins[place] * ends
    return float(begins[:length].sum())


def reveal(sizes: Counts, usable: int, counts: Counts | None = None) -> NDArray[np.int8]:
    """What the measured steps of one window say about each position: 1 where a proposal was kept, 0 where it
    was wrong, ``UNKNOWN`` for the target's own token after a full window and at the end, where the limit cut
    the step.

    Args:
        sizes: tokens of each step, in order, of one text or of texts one after the other.
        usable: of the window that was measured.
        counts: steps of each text; by default they are one.
    """
    positions = np.ones(int(sizes.sum()), dtype=np.int8)
    lasts = np.cumsum(sizes) - 1
    positions[lasts] = np.where(sizes <= usable, 0, UNKNOWN)
    if len(sizes):
        positions[lasts[-1:] if counts is None else lasts[np.cumsum(counts) - 1]] = UNKNOWN
    return positions


def fill(revealed: NDArray[np.int8], chance: NDArray[np.float64], rng: np.random.Generator) -> Bits:
    """The positions with the unknown ones drawn.

    Args:
        revealed: see ``reveal``.
        chance: that the proposal at a position is right, used where it is unknown.
        rng: draws.
    """
    bits: Bits = np.where(revealed == UNKNOWN, rng.random(len(revealed)) < chance, revealed == 1)
    return bits


def local_rate(
    revealed: NDArray[np.int8], lengths: Counts | None = None, *, reach: int = 16, prior: float = 0.5
) -> NDArray[np.float64]:
    """Share of right proposals near each position: the stretch after a full window is assumed to be like the
    stretch before it.

    Args:
        revealed: see ``reveal``.
        lengths: positions of each text; by default they are one.
        reach: positions to each side that count.
        prior: counted as two further positions.
    """
    own = np.asarray([len(revealed)]) if lengths is None else lengths
    ends = np.repeat(np.cumsum(own), own)
    places = np.arange(len(revealed))
    first = np.maximum(places - reach, ends - np.repeat(own, own))
    last = np.minimum(places + reach + 1, ends)
    known, right = (np.append(0, np.cumsum(part)) for part in (revealed != UNKNOWN, revealed == 1))
    rate: NDArray[np.float64] = (right[last] - right[first] + 2 * prior) / (known[last] - known[first] + 2)
    return rate
