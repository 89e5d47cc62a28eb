"""Do two variants draw their answers from one distribution? Above temperature 0 texts cannot agree, so this
is what is checked instead.

Many short answers to one prompt are compared piece by piece: at each place, how often each piece of text
stands there on either side, and after which piece. Answers of one side are independent of each other, so
under one distribution the names of the sides could be shuffled. The test is exact for any number of answers,
however the pieces of an answer depend on each other. Answers are short because a broken verifier shows in the
first tokens, before the texts spread out too far to be counted. They are longer than one token because the
first one comes from the prompt's own pass, which verifies nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from specdec.runs.manifest import RunManifest
from specdec.runs.record import RequestRecord

LEVEL = 0.02
"""Chance at which variants of one distribution are called different, over all variants of a run together."""

PLACES = 8
"""Pieces of an answer that are compared."""

LEAST_EXPECTED = 5.0
"""Least expected count of a cell on the smaller side (Cochran, Biometrics 10, 1954); rarer are pooled."""

SHUFFLES = 1000
"""Of the names of the sides."""

POWER_ROUNDS = 100

COLDER = 0.7
"""Temperature of the wrong verifier that the power is stated for, over the right one."""

ENOUGH_POWER = 0.9

SEED = 1

_PIECE = re.compile(r"\s*\w+|\s*[^\w\s]")

SampledState = Literal["one distribution", "differs", "cannot tell"]
"""``cannot tell``: no difference is shown, and there are too few answers, or too few different ones, to show
that of a verifier at another temperature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTest:
    """One variant's answers against the baseline's.

    Attributes:
        variant, against: names.
        temperature: that both were asked at.
        prompt: id of the prompt.
        requests: answers of either side, the baseline's first.
        state: see ``SampledState``.
        p_value: chance of a difference as large under one distribution.
        level: chance of a false "differs".
        power: chance to find a verifier that samples at ``COLDER`` times the temperature; an estimate from
            the baseline's own answers, from below.
        place: 1-based piece of text that differs most.
        piece: the text there whose frequencies differ most.
        shares: how often it stands there on either side, the baseline's first.
        says: the result as a sentence.
    """

    variant: str
    against: str
    temperature: float
    prompt: str
    requests: tuple[int, int]
    state: SampledState
    p_value: float
    level: float
    power: float
    place: int
    piece: str
    shares: tuple[float, float]
    says: str


def pieces(text: str, places: int = PLACES) -> tuple[str, ...]:
    """The first words and signs of a text, each with the space before it; empty ones after its end."""
    cut = [match[0] for match, _ in zip(_PIECE.finditer(text), range(places), strict=False)]
    return tuple(cut) + ("",) * (places - len(cut))


def sampled_tests(
    records: Sequence[RequestRecord], baselines: Sequence[str], variants: Sequence[str]
) -> tuple[SampledTest, ...]:
    """Every variant against the first baseline, at each temperature that was asked.

    Args:
        records: short answers to one prompt, see ``specdec sampling``.
        baselines: names; the first is the experiment's.
        variants: names of the others.
    """
    answered = [r for r in records if r.outcome in ("ok", "early-eos") and r.unread is None]
    temperatures = sorted({record.temperature for record in answered})
    tests: list[SampledTest] = []
    for temperature in temperatures:
        of = {
            name: [r for r in answered if (r.variant, r.temperature) == (name, temperature)]
            for name in (*baselines[:1], *variants)
        }
        ours = of[baselines[0]] if baselines else []
        compared = [name for name in variants if of[name]]
        tests += [sampled_test(ours, of[name], level=LEVEL / len(compared)) for name in compared if ours]
    return tuple(tests)


def compared_in(manifest: RunManifest, records: Sequence[RequestRecord]) -> tuple[SampledTest, ...]:
    """``sampled_tests`` over the variants of a run; empty where nothing was asked."""
    baselines = [name for name, facts in manifest.variants.items() if facts.get("role") == "baseline"]
    others = [name for name in manifest.variants if name not in baselines[:1]]
    return sampled_tests(records, baselines, others)


def sampled_test(
    ours: Sequence[RequestRecord], theirs: Sequence[RequestRecord], *, level: float = LEVEL
) -> SampledTest:
    """Tests one variant; see the module.

    Args:
        ours: the baseline's answers, at least one.
        theirs: the variant's, at least one, to the same prompt at the same temperature.
        level: chance of a false "differs".
    """
    both = [pieces(record.text) for record in (*ours, *theirs)]
    table = _Table.of(both, len(ours))
    chance = np.random.default_rng(SEED)
    own = table.statistic(table.counts(np.arange(len(both)) < len(ours)))
    null = table.statistic(table.counts(_shuffles(len(both), len(ours), chance)))
    p_value = float((1 + np.count_nonzero(null >= own - 1e-9)) / (1 + SHUFFLES))
    power = _power(table, both[: len(ours)], float(np.quantile(null, 1 - level)), len(theirs), chance)
    place, piece, shares = table.largest(both, len(ours))
    state: SampledState = (
        "differs" if p_value <= level else "one distribution" if power >= ENOUGH_POWER else "cannot tell"
    )
    first = ours[0]
    test = SampledTest(
        variant=theirs[0].variant,
        against=first.variant,
        temperature=first.temperature,
        prompt=first.prompt,
        requests=(len(ours), len(theirs)),
        state=state,
        p_value=p_value,
        level=level,
        power=power,
        place=place,
        piece=piece,
        shares=shares,
        says="",
    )
    return _said(test)


def _said(test: SampledTest) -> SampledTest:
    ours, theirs = test.requests
    names = f"{test.variant} and {test.against}"
    asked = f"{theirs} and {ours} short answers at temperature {test.temperature:g}"
    found = (
        f"a verifier at {COLDER:g} times the temperature is found in {test.power:.0%} of such tests or more"
    )
    if test.state == "differs":
        shares = f"{test.shares[1]:.0%} against {test.shares[0]:.0%}"
        says = (
            f"{names} draw from different distributions: p = {test.p_value:.2g} over {asked}, and piece"
            f" {test.place} is {test.piece.strip()!r} in {shares}"
        )
    elif test.state == "one distribution":
        says = f"no difference shown between the distributions of {names}: {asked}, where {found}"
    else:
        says = f"{asked} cannot tell whether {names} draw from one distribution: {found}"
    return replace(test, says=says)


@dataclass(frozen=True, slots=True)
class _Table:
    """Cells of all places side by side.

    Attributes:
        cells: answers by cells, 1 where an answer falls into a cell.
        place: of each cell, 0-based.
        first: answers of the first side.
    """

    cells: np.ndarray
    place: np.ndarray
    first: int

    @classmethod
    def of(cls, answers: Sequence[tuple[str, ...]], first: int) -> _Table:
        smaller = min(first, len(answers) - first) / len(answers)
        columns: list[np.ndarray] = []
        places: list[int] = []
        for place in range(PLACES):
            # With the piece before it: where contexts differ, what one of them makes likelier another hides.
            said = [answer[max(0, place - 1) : place + 1] for answer in answers]
            frequent = [pair for pair, count in Counter(said).items() if count * smaller >= LEAST_EXPECTED]
            split = [np.array([pair == own for own in said], dtype=float) for pair in frequent]
            rest = 1 - sum(split, np.zeros(len(answers)))
            if rest.sum() * smaller >= LEAST_EXPECTED or not split:
                split.append(rest)
            elif rest.any():
                # Too few to be a cell of their own: they go with the rarest that is one.
                rarest = min(range(len(split)), key=lambda index: split[index].sum())
                split[rarest] = split[rarest] + rest
            if len(split) > 1:
                columns += split
                places += [place] * len(split)
        if not columns:
            return cls(np.zeros((len(answers), 0)), np.zeros(0, dtype=int), first)
        return cls(np.stack(columns, axis=1), np.array(places), first)

    def counts(self, sides: np.ndarray) -> np.ndarray:
        """Answers of the first side by cell, for each row of ``sides``: whether an answer is of it."""
        return np.atleast_2d(sides).astype(float) @ self.cells

    def statistic(self, first: np.ndarray) -> np.ndarray:
        """Chi-square of homogeneity of each place, standardized by its degrees of freedom and added up."""
        return self.of_counts(first, self.cells.sum(axis=0) - first)

    def of_counts(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The same for counts of either side."""
        sizes = self.first, len(self.cells) - self.first
        total = first + second
        share = sizes[0] / sum(sizes)
        expected = np.maximum(total * share, 1e-9), np.maximum(total * (1 - share), 1e-9)
        square = (first - expected[0]) ** 2 / expected[0] + (second - expected[1]) ** 2 / expected[1]
        result = np.zeros(len(np.atleast_2d(first)))
        for place in np.unique(self.place):
            mine = self.place == place
            degrees = mine.sum() - 1
            result += (square[..., mine].sum(axis=-1) - degrees) / np.sqrt(2 * degrees)
        return result

    def largest(self, answers: Sequence[tuple[str, ...]], first: int) -> tuple[int, str, tuple[float, float]]:
        """Place, piece and its shares on either side where the shares differ most for their size."""
        best, found = -1.0, (1, "", (0.0, 0.0))
        for place in range(PLACES):
            counted = [
                Counter(answer[place] for answer in side) for side in (answers[:first], answers[first:])
            ]
            for piece in counted[0] | counted[1]:
                shares = counted[0][piece] / first, counted[1][piece] / (len(answers) - first)
                weight = (shares[0] - shares[1]) ** 2 / (shares[0] + shares[1])
                if weight > best:
                    best, found = weight, (place + 1, piece, shares)
        return found


def _shuffles(answers: int, first: int, chance: np.random.Generator) -> np.ndarray:
    sides = np.zeros((SHUFFLES, answers), dtype=bool)
    sides[:, :first] = True
    return chance.permuted(sides, axis=1)


def _power(
    table: _Table, ours: Sequence[tuple[str, ...]], critical: float, second: int, chance: np.random.Generator
) -> float:
    """Share of rounds in which a colder verifier is found.

    The baseline's answers are drawn anew for its own side, and for the other with the weights that a lower
    temperature gives them along the tree of their beginnings, the first piece excepted. Beginnings that were
    seen once have no weight to shift, so that the true power is mostly higher.
    """
    weights = _colder(ours)
    own = np.full(len(ours), 1 / len(ours))
    cells = table.cells[: len(ours)]
    drawn = [
        chance.multinomial(count, chances, size=POWER_ROUNDS) @ cells
        for count, chances in ((len(ours), own), (second, weights))
    ]
    return float(np.mean(table.of_counts(drawn[0], drawn[1]) > critical))


def _colder(answers: Sequence[tuple[str, ...]]) -> np.ndarray:
    """Chance of each answer where each piece but the first is drawn at ``COLDER`` times the temperature."""
    seen = [Counter(answer[:length] for answer in answers) for length in range(PLACES + 1)]
    weights = np.ones(len(answers))
    for length in range(1, PLACES + 1):
        power = 1.0 if length == 1 else 1 / COLDER
        sharpened = {begin: count**power for begin, count in seen[length].items()}
        sums: dict[tuple[str, ...], float] = {}
        for begin, weight in sharpened.items():
            sums[begin[:-1]] = sums.get(begin[:-1], 0.0) + weight
        weights *= [sharpened[answer[:length]] / sums[answer[: length - 1]] for answer in answers]
    weights /= [seen[PLACES][answer] for answer in answers]
    return weights / weights.sum()
