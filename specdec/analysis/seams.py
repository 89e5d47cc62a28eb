"""An interruption can change the machine. So each side of a seam is analysed by itself, and the two are
compared.

A machine that is slower in everything after the seam leaves every ratio as it is, since both requests of a
pair lie in one block, and every block on one side. If it changes the ratio itself, there are two answers, and
their mean is true for neither machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, variance

from specdec.analysis.distributions import t_quantile
from specdec.analysis.pairing import Pair
from specdec.metrics.tpot import tpot
from specdec.runs.seam import Seam

FEWEST_UNITS = 3
"""Test cases (of one test case: prompts) on both sides of a seam below which a change cannot be told from
chance.
"""


@dataclass(frozen=True, slots=True)
class Shift:
    """By how much the ratio of a variant changed at a seam.

    Attributes:
        before, after: geometric mean ratio of the prompts that lie on both sides.
    """

    before: float
    after: float

    @property
    def says(self) -> str:
        """The change as part of a sentence."""
        return (
            f"the ratio is {self.before:.2f}x before the interruption and {self.after:.2f}x after it, on"
            " another machine or state of it"
        )


def shifts(
    rows: Iterable[tuple[Hashable, Sequence[Pair]]], seams: Sequence[Seam], *, level: float, margin: float
) -> Mapping[Hashable, Shift]:
    """The groups of rows whose ratio of time per token differs between the two sides of a seam.

    A prompt is compared with itself, a test case is one unit since its prompts share blocks, and the interval
    is Student's t over units. A group is named where the whole interval lies beyond the margin.

    Args:
        rows: pairs of each row, with its group.
        seams: of the run.
        level: confidence of all intervals together.
        margin: relative difference that matters.
    """
    groups: dict[Hashable, list[Pair]] = defaultdict(list)
    for group, pairs in rows:
        groups[group].extend(pairs)
    count = max(1, len(groups) * len(seams))
    found: dict[Hashable, Shift] = {}
    before: set[str] = set()
    for seam in seams:
        before.add(seam.run)
        for group, pairs in groups.items():
            shift = _shift(pairs, frozenset(before), 1 - (1 - level) / count, log(1 + margin))
            if shift is not None:
                found.setdefault(group, shift)
    return found


def _shift(pairs: Sequence[Pair], before: frozenset[str], level: float, margin: float) -> Shift | None:
    values: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for pair in pairs:
        ours, theirs = tpot(pair.baseline), tpot(pair.variant)
        if ours and theirs:
            sides = values.setdefault((pair.baseline.test_case, pair.baseline.prompt), ([], []))
            sides[pair.baseline.run not in before].append(log(ours / theirs))
    both = {prompt: (fmean(old), fmean(new)) for prompt, (old, new) in values.items() if old and new}
    units: dict[Hashable, list[float]] = defaultdict(list)
    single = len({case for case, _ in both}) == 1
    for (case, prompt), (old, new) in both.items():
        units[prompt if single else case].append(new - old)
    changes = [fmean(unit) for unit in units.values()]
    if len(changes) < FEWEST_UNITS:
        return None
    center = fmean(changes)
    half = t_quantile(len(changes) - 1, (1 + level) / 2) * sqrt(variance(changes) / len(changes))
    if abs(center) - half <= margin:
        return None
    olds, news = zip(*both.values(), strict=True)
    return Shift(exp(fmean(olds)), exp(fmean(news)))


def seam_caveats(seams: Iterable[Seam]) -> tuple[str, ...]:
    """Each seam, named."""
    return tuple(
        f"The run was interrupted before block {seam.block} and resumed: {seam.records} records of run"
        f" {seam.run} stand, {seam.set_aside} of a torn block were asked again. Each block lies on one side,"
        " so that no pair compares two machines."
        for seam in seams
    )
