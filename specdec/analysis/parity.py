"""Do both variants give the same text? Greedy decoding with a draft must give the target's own text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb

from specdec.analysis.pairing import Pair
from specdec.analysis.verdict import Difference, Parity, ParityState
from specdec.runs.record import RequestRecord

NEAR_TIE = 0.3
"""Gap in log-probability up to which right decoders in bf16 may swap the two best tokens, since graphs of one
and of several rows round differently. bf16 keeps 8 bits, so logits of 16 to 32 lie 0.125 apart; each of the
two may round to its neighbour, which closes two steps, 0.25. On one Trainium2 chip right texts parted at
margins of 0, 0.125 and 0.25, never above (foxl-ai/kiln, bench/results/2026-10-07-eagle3-trn2-llama31.md); on
llama.cpp f16, f32 and bf16 of one model part at 0.06 at most, and planted faults at 0.8 and more."""

SURE = 0.05
"""Chance below which texts that part sooner than the baseline's own repeats are not put down to these."""

SHOWN = 60


def parity(paired: Sequence[Pair], baseline: Iterable[RequestRecord]) -> Parity:
    """Compares the texts of pairs, and the baseline's repeats with each other.

    The rule: every pair equal, ``same``. Else, if every first difference is a near-tie, or the pairs part no
    sooner than the baseline's own repeats part from each other, ``swaps``. Else ``differs``.

    Args:
        paired: pairs of one test case.
        baseline: measured records of the baseline on the same test case.
    """
    greedy = [
        pair
        for pair in paired
        if pair.baseline.temperature == 0 == pair.variant.temperature
        and _readable(pair.baseline)
        and _readable(pair.variant)
    ]
    differences = tuple(
        sorted(
            (_difference(pair) for pair in greedy if pair.baseline.text != pair.variant.text),
            key=lambda difference: difference.position,
        )
    )
    repeats = _repeats(baseline)
    self_equal = sum(first == second for first, second in repeats)
    state, because = _state(differences, greedy, repeats)
    return Parity(
        state=state,
        equal=len(greedy) - len(differences),
        total=len(greedy),
        self_equal=self_equal,
        self_total=len(repeats),
        differences=differences,
        near_tie_gap=NEAR_TIE,
        because=because,
    )


def _state(
    differences: Sequence[Difference], greedy: Sequence[Pair], repeats: Sequence[tuple[str, str]]
) -> tuple[ParityState, str]:
    if not greedy:
        return "not judged", ""
    if not differences:
        return "same", ""
    if all(difference.near_tie for difference in differences):
        return "swaps", f"each at a near-tie of at most {NEAR_TIE:g} in log-probability"
    own = sum(first != second for first, second in repeats)
    # Characters that were equal before a pair parted or ended: the room in which it could part.
    room = sum(parted_at(pair.baseline.text, pair.variant.text) for pair in greedy)
    own_room = sum(parted_at(first, second) for first, second in repeats)
    if own and not sooner(len(differences), room, own, own_room):
        return "swaps", "no sooner than the baseline's own repeats part"
    return "differs", "which nothing explains"


def sooner(parted: int, room: int, own: int, own_room: int) -> bool:
    """Whether pairs part at a higher rate than repeats of the baseline: the exact test of two Poisson rates
    given their sum (Przyborowski and Wilenski, Biometrika 31, 1940), one-sided at ``SURE``.

    Args:
        parted: pairs whose texts part.
        room: characters (or tokens) of all pairs until they part or end.
        own: repeats that part from the first one.
        own_room: as ``room``, of the repeats.
    """
    share = room / (room + own_room) if room + own_room else 0.0
    total = parted + own
    counts = range(parted, total + 1)
    chance = sum(comb(total, count) * share**count * (1 - share) ** (total - count) for count in counts)
    return chance < SURE


def _repeats(records: Iterable[RequestRecord]) -> list[tuple[str, str]]:
    """Texts of each prompt's first repeat with those of its others."""
    first: dict[str, str] = {}
    both: list[tuple[str, str]] = []
    greedy = (record for record in records if record.temperature == 0 and _readable(record))
    for record in sorted(greedy, key=lambda record: record.repeat):
        if record.prompt in first:
            both.append((first[record.prompt], record.text))
        else:
            first[record.prompt] = record.text
    return both


def parted_at(ours: str, theirs: str) -> int:
    """Characters that are equal before two texts part, or the shorter ends."""
    return next(
        (at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )


def _difference(pair: Pair) -> Difference:
    ours, theirs = pair.baseline.text, pair.variant.text
    position = parted_at(ours, theirs)
    return Difference(
        prompt=pair.baseline.prompt,
        repeat=pair.baseline.repeat,
        position=position,
        length=len(ours),
        baseline=ours[position : position + SHOWN],
        variant=theirs[position : position + SHOWN],
        near_tie=_near_tie(pair.baseline.near_tie, pair.variant.near_tie),
    )


def _near_tie(ours: Sequence[float] | None, theirs: Sequence[float] | None) -> bool | None:
    """Whether the token at which the outputs part was nearly a tie.

    Until they part, and at the token where they do, both variants look at the same context, so the gaps agree
    but for rounding; after it they do not. The token before the first disagreement is the one they parted at.
    """
    if not ours or not theirs:
        return None
    for position, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if abs(a - b) > NEAR_TIE:
            return position > 0 and min(ours[position - 1], theirs[position - 1]) <= NEAR_TIE
    last = min(len(ours), len(theirs)) - 1
    return min(ours[last], theirs[last]) <= NEAR_TIE


def _readable(record: RequestRecord) -> bool:
    """Whether the text is the whole answer: tokens that were counted but not read are equal to nothing."""
    return bool(record.text) and record.unread is None
