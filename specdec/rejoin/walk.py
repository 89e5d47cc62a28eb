"""The walk: a reference decodes along another's text, and is set right at each different token.

Texts are bytes here, since a token may end inside a character.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median
from typing import Protocol

MOST_SWAPS = 200
"""Different tokens after which a walk ends: what differs this often needs no more requests to be told."""

OUTSIDE = 20.0
"""Gap, in nats, of a token that is not among the likeliest that the server lists."""

FINE_TIE = 0.1
"""Gap up to which right decoders swap where log-probabilities are fine and the reference repeats them. On the
local engine f32, bf16 and look-up speculation have 0.06 at most against f16 (docs/verdict.md)."""

PLAIN_GAP = 1.0
"""Gap from which on no rounding explains a swap, so that the reference is not asked again."""

_GRIDS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
"""Grids of log-probabilities that are looked for. bf16 has 8 bits, so that logits of 4 to 8 lie 1/32 apart,
and those of 128 to 256 lie 1 apart."""

_UNEVEN = 2e-4
"""What a difference of two log-probabilities may be off a grid: they are rounded to be sent."""

_FEWEST = 5
"""Listed tokens that a grid or a change can be seen in."""

_LIKELIEST = 10
"""Listed tokens that are compared with themselves."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text as the model's tokenizer cuts it.

    Attributes:
        data: its bytes.
        ids: its token ids; empty where the server does not tell them.
    """

    data: bytes
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Token:
    """One token that the reference decoded.

    Attributes:
        data: what it adds to the text.
        logprob: its log-probability, natural; None where the server tells none that is real.
        others: log-probabilities of the likeliest tokens by their bytes.
    """

    data: bytes
    logprob: float | None
    others: dict[bytes, float]


class Reference(Protocol):
    """A server that decodes on from a prompt and a given text, greedily."""

    def cut(self, text: str) -> Sequence[Piece]:
        """A text cut as the model's tokenizer cuts it; joined, the pieces are the text again."""
        ...

    def decode(self, before: Sequence[Piece], most: int) -> Generator[Token]:
        """Decodes after the prompt and ``before``, at most so many tokens. Closing it ends the request."""
        ...


@dataclass(frozen=True, slots=True)
class Swap:
    """A token at which the reference would have gone on otherwise.

    Attributes:
        token: tokens of the text before it.
        position: bytes before it.
        reference: what the reference says there; empty where it ends its answer.
        other: what the text says there.
        gap: log-probability of the reference's own choice less that of the other's, natural logarithm; None
            where the server tells none; ``OUTSIDE`` where the other's is not among the likeliest.
        rounding: how coarse the reference's own log-probabilities are there, the larger of two: their grid,
            and by how much they change when the reference reads the text instead of decoding it. None where
            it was not asked, or does not tell.
    """

    token: int
    position: int
    reference: str
    other: str
    gap: float | None
    rounding: float | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """How a text fares along the reference.

    Attributes:
        tokens: of the text that were compared.
        swaps: where the reference would have gone on otherwise.
    """

    tokens: int
    swaps: tuple[Swap, ...]


def walk(reference: Reference, text: str, *, start: int = 0, end: int | None = None) -> Walk:
    """Follows ``text`` along the reference.

    The reference decodes from the prompt and the text up to ``start``. At the first different token the
    request ends, and another goes on from the text up to and including that token: swaps + 1 requests, and
    one for a single token where a gap lies between ``FINE_TIE`` and ``PLAIN_GAP``. What is compared is bytes,
    since two tokenizations of one text are no difference.

    Args:
        reference: the server.
        text: the other's, to its end.
        start: tokens of the text that are taken for granted.
        end: token to stop at; the text's last by default.
    """
    pieces = list(reference.cut(text))
    end = len(pieces) if end is None else min(end, len(pieces))
    at = start
    swaps: list[Swap] = []
    while at < end and len(swaps) < MOST_SWAPS:
        swap = _leg(reference, pieces, at, end)
        if swap is None:
            at = end
        else:
            swaps.append(swap)
            at = swap.token + 1
    return Walk(max(0, at - start), tuple(swaps))


def _leg(reference: Reference, pieces: Sequence[Piece], at: int, end: int) -> Swap | None:
    """Decodes from token ``at`` to the first difference; None where there is none before ``end``."""
    starts = [0]
    for piece in pieces:
        starts.append(starts[-1] + len(piece.data))
    text = b"".join(piece.data for piece in pieces)
    position = starts[at]
    token = None
    # Another tokenization of the same text may need more tokens than ours.
    with closing(reference.decode(pieces[:at], 2 * (end - at) + 4)) as decoded:
        for token in decoded:
            length = min(len(token.data), starts[end] - position)
            if text[position : position + length] != token.data[:length]:
                break
            position += length
            if position >= starts[end]:
                return None
        else:
            token = None
    index = max(number for number in range(at, end) if starts[number] <= position)
    gap = None if token is None else _gap(token, text[position:], aligned=starts[index] == position)
    rounding = None
    # The first token of a leg comes from reading, as the same token asked for again does.
    if token is not None and gap is not None and FINE_TIE < gap < PLAIN_GAP and index > at:
        rounding = _rounding(reference, pieces[:index], token)
    return Swap(
        token=index,
        position=starts[index],
        reference="" if token is None else token.data.decode(errors="replace"),
        other=pieces[index].data.decode(errors="replace"),
        gap=gap,
        rounding=rounding,
    )


def _rounding(reference: Reference, before: Sequence[Piece], token: Token) -> float | None:
    with closing(reference.decode(before, 1)) as decoded:
        again = next(decoded, None)
    step = spacing(token.others.values())
    known = {} if again is None or again.logprob is None else again.others
    likeliest = sorted(token.others, key=lambda data: -token.others[data])[:_LIKELIEST]
    moved = [known[data] - token.others[data] for data in likeliest if data in known]
    if step is None or len(moved) < _FEWEST:
        return None
    # What moves all alike moves no gap.
    middle = median(moved)
    return max(step, *(abs(change - middle) for change in moved))


def spacing(logprobs: Collection[float]) -> float | None:
    """The grid that log-probabilities of one position lie on, which is that of their logits: the largest
    power of two that all differences are multiples of. 0 where they lie on none, None where too few are
    listed.
    """
    ordered = sorted(logprobs)
    if len(ordered) < _FEWEST:
        return None
    apart = [value - ordered[0] for value in ordered]
    fitting = (
        step for step in _GRIDS if all(abs(each - step * round(each / step)) < _UNEVEN for each in apart)
    )
    return next(fitting, 0.0)


def _gap(token: Token, rest: bytes, *, aligned: bool) -> float | None:
    if token.logprob is None:
        return None
    # The other's token is the longest listed one that its text goes on with.
    fitting = [data for data in token.others if data and rest.startswith(data)] if aligned else []
    if not fitting:
        return OUTSIDE if aligned else None
    return max(0.0, token.logprob - token.others[max(fitting, key=len)])
