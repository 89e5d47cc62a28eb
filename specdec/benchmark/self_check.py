"""In which blocks the baseline is asked once more, as if it were a variant: measured against itself, it shows
by how much this run calls equal things different.

The second arm has its own connections and its own turn. It has the variants between itself and the baseline,
as far as the block's order allows, so that both of the baseline's turns follow a pause of their server. A
server may keep what it read of a prompt: the first time that prompts are asked, the second arm comes last, so
that neither the baseline nor a variant finds its prompts read already. Where all servers have had the prompts
before, it comes first as often, so that a drift of the machine falls on both of the baseline's arms alike.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

LEAST = 4
"""Blocks with the second arm, even where the share asks for fewer, but no more than half of them: what blocks
share is told badly by fewer."""

TOO_FEW = 3
"""Fewer blocks with the second arm tell nothing, so that a run has none."""

Place = Literal["first", "last"]
"""Where in a block the second arm has its turn."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A block, as far as it matters here.

    Attributes:
        baseline: place of the baseline in the order of turns.
        turns: of all variants.
        test_case: of its first request.
        known: whether every prompt was asked in an earlier block.
    """

    baseline: int
    turns: int
    test_case: str
    known: bool

    def allows(self, place: Place) -> bool:
        """Whether a variant lies between both arms, and nobody finds a prompt read already that others do
        not.
        """
        return self.baseline < self.turns - 1 if place == "last" else self.known and self.baseline > 0


def chosen(candidates: Sequence[Candidate], share: float, seed: int) -> dict[int, Place]:
    """Which blocks get the second arm, evenly over the run, and where in each.

    Args:
        candidates: the blocks of one load, in order.
        share: of the blocks, 0 to 1.
        seed: decides between blocks that serve alike.
    """
    count = len(candidates)
    wanted = min(count, max(ceil(share * count), min(LEAST, count // 2)))
    if share <= 0 or wanted < TOO_FEW:
        return {}
    draw = random.Random(seed)
    places: dict[int, Place] = {}
    cases: Counter[str] = Counter()
    for part in range(wanted):
        window = range(part * count // wanted, (part + 1) * count // wanted)
        firsts = sum(place == "first" for place in places.values())
        order: tuple[Place, Place] = ("first", "last") if 2 * firsts < len(places) else ("last", "first")
        fitting: list[tuple[int, Place]] = [
            (number, place) for place in order for number in window if candidates[number].allows(place)
        ]
        # Where no block of this part allows either, both turns follow each other.
        place: Place = fitting[0][1] if fitting else "last"
        numbers = [number for number, own in fitting if own == place] or list(window)
        best = min(numbers, key=lambda number: (cases[candidates[number].test_case], draw.random()))
        places[best] = place
        cases[candidates[best].test_case] += 1
    return places
