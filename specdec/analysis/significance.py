"""Is a difference real, and how many prompts would tell? Paired ratios, their intervals, and the decision.

A prompt is the unit of chance: repeats of it are averaged first. The interval of a ratio is, at each end, the
wider of two: Student's t on the logarithms, which knows what few prompts are worth (its spread steadied by
the other rows, see ``moderation``) and adds what blocks share (see ``blocks``), and the bootstrap percentile,
which knows when the prompts are skewed.
Rows that are read together share one error: each is given at the level ``1 - (1 - joint) / rows``
(Bonferroni), so that two identical services are called different in few runs, not in few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, log, sqrt
from statistics import fmean, variance

import numpy as np
from numpy.typing import NDArray

from specdec.analysis.blocks import BlockSpread
from specdec.analysis.distributions import chi_square_quantile, t_quantile
from specdec.analysis.moderation import NOTHING_COMMON, CommonSpread, common_spread
from specdec.analysis.pairing import LogRatio, prompt_means
from specdec.analysis.phases import degrees_of, evenly, phased, share_of, shared_spread
from specdec.analysis.verdict import Decision, Interval, PairedRatio, Spread

JOINT_LEVEL = 0.98
"""Confidence with which all rows of a report hold together. Simulated runs of eight rows with four to six
prompts each, of equal and of very unequal spread, called identical services different in 2 to 4 of 100 at
this level, in 4 to 9 at 0.95."""

MARGIN = 0.05
"""Relative difference in time per token that matters. Below it, a second service to run costs more care than
it saves.
"""

POWER = 0.9
"""Chance with which a true difference of the margin is to be found at the recommended number of prompts."""

MIN_PROMPTS = 3
"""Fewest prompts with a spread to speak of. Below it there is no interval and no decision."""

WIDEST = log(20)
"""Half-width, as a logarithm, above which an interval says nothing: the design cannot tell."""

SEED = 20260415
RESAMPLES = 4000
_AT_ONCE = 250_000
"""Values that are drawn at a time: what a processor keeps near itself."""

_KEPT = 1024
"""Prompts up to which the draws of a resampling are kept for the next row: 8 MB."""


def row_level(rows: int, joint: float = JOINT_LEVEL) -> float:
    """Confidence each of ``rows`` intervals needs for all to hold together at ``joint``."""
    return 1 - (1 - joint) / max(1, rows)


def paired_ratio(
    row: Sequence[LogRatio],
    *,
    level: float,
    common: CommonSpread = NOTHING_COMMON,
    blocks: BlockSpread | None = None,
    margin: float = MARGIN,
    seed: int = SEED,
) -> PairedRatio | None:
    """Geometric mean ratio with its interval and the prompts that would settle it.

    Args:
        row: its pairs; see ``pairing.log_ratios``.
        level: confidence of the interval by itself.
        common: what the rows read together say about the spread between prompts.
        blocks: what they say about the spread between blocks; None where they cannot tell.
        margin: relative difference that matters.
        seed: of the resampling, so that one run has one answer.

    Returns:
        None when there is no pair at all.
    """
    if not row:
        return None
    means = prompt_means(row)
    count = len(means)
    center = fmean(means)
    share, together = share_of(row), "phases" if phased(row) else "blocks"
    bare = PairedRatio(
        value=exp(center),
        interval=None,
        prompts=count,
        pairs=len(row),
        needed_prompts=None,
        more_prompts=None,
        blocks=len({pair.block for pair in row}),
    )
    if count < MIN_PROMPTS:
        return replace(bare, more_prompts=MIN_PROMPTS - count, unknown="prompts")
    if blocks is None and share > 0:
        return replace(bare, unknown=together)
    moderated, degrees = common.moderate(variance(means), count - 1)
    own = moderated / count
    half, total, degrees = min(_widths(own, degrees, share, blocks, level))
    if half > WIDEST:
        return replace(bare, unknown=together if share > 0 else "prompts")
    low, high = _bootstrap_mean(np.asarray(means), level, seed)
    interval = Interval(exp(min(low, center - half)), exp(max(high, center + half)), level)
    if blocks is not None and phased(row):
        reach = max(abs(center), log(1 + margin) - abs(center))
        settled = decide(interval, margin) != "undecided"
        more_repeats = 0 if settled else _more_repeats(row, own, degrees, blocks, level, reach)
        return replace(bare, interval=interval, more_repeats=more_repeats)
    plan = _Plan(spread=sqrt(total * count), borrowed=degrees - (count - 1), level=level)
    more = 0
    if decide(interval, margin) == "undecided":
        more = max(1, plan.to_settle(center, log(1 + margin)) - count)
    return replace(
        bare,
        interval=interval,
        needed_prompts=plan.to_find(log(1 + margin), pilot=count),
        more_prompts=more,
    )


@dataclass(frozen=True, slots=True)
class ReadTogether:
    """What rows that are read together know of each other.

    Attributes:
        level: confidence of each row's interval.
        common: spread between prompts.
        blocks: spread between blocks, by group.
    """

    level: float
    common: CommonSpread
    blocks: Mapping[Hashable, BlockSpread | None]

    @classmethod
    def of(cls, rows: Sequence[tuple[Hashable, Sequence[LogRatio]]]) -> ReadTogether:
        """From (group, row) pairs. Rows of one group share no pair: one variant against one baseline."""
        groups: dict[Hashable, list[Sequence[LogRatio]]] = {}
        for group, row in rows:
            groups.setdefault(group, []).append(row)
        return cls(
            row_level(len(rows)),
            common_spread([row for _, row in rows]),
            {group: shared_spread(members) for group, members in groups.items()},
        )

    def ratio(self, group: Hashable, row: Sequence[LogRatio]) -> PairedRatio | None:
        """The ratio of one row of ``group``, see ``paired_ratio``."""
        return paired_ratio(row, level=self.level, common=self.common, blocks=self.blocks.get(group))


def decide(interval: Interval | None, margin: float = MARGIN) -> Decision:
    """The decision an interval of baseline over variant carries."""
    if interval is None:
        return "undecided"
    if interval.low > 1 / (1 + margin) and interval.high < 1 + margin:
        return "no difference"
    if interval.low > 1:
        return "helps"
    return "hurts" if interval.high < 1 else "undecided"


MOST_REPEATS = 20


def _more_repeats(
    row: Sequence[LogRatio], own: float, degrees: float, blocks: BlockSpread, level: float, reach: float
) -> int | None:
    """Further repeats at which the interval of a row in phases has half the width ``reach``; None where
    ``MOST_REPEATS`` do not do.
    """
    probability = (1 + level) / 2
    had = len({pair.phases[1] for pair in row if pair.phases is not None})
    for repeats in range(had + 1, MOST_REPEATS + 1):
        shared = t_quantile(degrees_of(repeats), probability) ** 2 * evenly(repeats) * blocks.most
        if sqrt(t_quantile(_rounded(degrees), probability) ** 2 * own * had / repeats + shared) <= reach:
            return repeats - had
    return None


@dataclass(frozen=True, slots=True)
class _Plan:
    """How many prompts a later run needs.

    Attributes:
        spread: standard deviation of the log ratios over prompts, and what their blocks share, which grows
            in number with the prompts.
        borrowed: degrees of freedom that other rows lend, less what the blocks' uncertainty takes.
        level: confidence of the interval.
    """

    spread: float
    borrowed: float
    level: float

    def to_find(self, effect: float, *, pilot: int) -> int:
        """Prompts at which a true ``effect`` (logarithm of a ratio, above 0) is found with chance ``POWER``.

        The spread of ``pilot`` prompts is itself uncertain, so its upper 80% limit is planned with (Browne,
        Statistics in Medicine 14, 1995, "On the use of a pilot sample for sample size determination").
        """
        degrees = _rounded(pilot - 1 + self.borrowed)
        cautious = self.spread * sqrt(degrees / chi_square_quantile(degrees, 0.2))
        return self._fewest(
            lambda count: (
                (self._quantile(count, (1 + self.level) / 2) + self._quantile(count, POWER)) * cautious
            ),
            effect,
        )

    def to_settle(self, center: float, effect: float) -> int:
        """Prompts at which the interval leaves 1 out or lies within ``effect`` of it, whichever is nearer to
        ``center``.
        """
        reach = max(abs(center), effect - abs(center))
        return self._fewest(lambda count: self._quantile(count, (1 + self.level) / 2) * self.spread, reach)

    def _quantile(self, count: int, probability: float) -> float:
        return t_quantile(_rounded(count - 1 + self.borrowed), probability)

    def _fewest(self, width: Callable[[int], float], reach: float) -> int:
        # width(count) falls with count, so a count that is enough at the widest quantile bounds the search
        # from above.
        low, high = MIN_PROMPTS, MIN_PROMPTS
        while width(high) / sqrt(high) > reach:
            low, high = high, 2 * high
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if width(middle) / sqrt(middle) <= reach else (middle + 1, high)
        return high


FEW_BLOCKS = 6
"""Degrees of freedom between blocks below which Satterthwaite's approximation is too bold: with three test
cases of two blocks it called identical services different in 6 of 100 reports."""


def _widths(
    own: float, degrees: float, share: float, blocks: BlockSpread | None, level: float
) -> Iterator[tuple[float, float, float]]:
    """Intervals of a mean that hold: half-width, variance, and the degrees of freedom of that.

    The degrees of a sum of two variances are Satterthwaite's (Biometrics Bulletin 2, 1946). With few blocks
    each variance keeps its own quantile, which holds at any number (Banerjee, Sankhya 22, 1960, "Approximate
    confidence interval for linear functions of means of k populations").

    Args:
        own: variance from the spread between prompts.
        degrees: degrees of freedom of ``own``.
        share: see ``shared_share``.
        blocks: spread between blocks; None where none is shared.
        level: confidence.
    """
    probability = (1 + level) / 2
    if blocks is None or share == 0:
        yield t_quantile(_rounded(degrees), probability) * sqrt(own), own, degrees
        return
    if blocks.degrees < FEW_BLOCKS:
        shared = share * blocks.most
        pair = t_quantile(_rounded(degrees), probability), t_quantile(_rounded(blocks.degrees), probability)
        yield sqrt(pair[0] ** 2 * own + pair[1] ** 2 * shared), own + shared, min(degrees, blocks.degrees)
        return
    for variance_, uncertainty in (
        (blocks.variance, blocks.uncertainty),
        (blocks.most, blocks.most_uncertainty),
    ):
        total = own + share * variance_
        worth = total**2 / (own**2 / degrees + (share * uncertainty) ** 2) if total > 0 else degrees
        yield t_quantile(_rounded(worth), probability) * sqrt(total), total, worth


def _rounded(degrees: float) -> float:
    """Degrees of freedom rounded down to what a quantile is worth computing anew for."""
    if degrees >= 10:
        return float(min(200, int(degrees)))
    return max(0.5, int(10 * degrees) / 10)


def _bootstrap_mean(values: NDArray[np.float64], level: float, seed: int) -> tuple[float, float]:
    count = len(values)
    drawn = _resampled(count, seed) if count <= _KEPT else _draws(count, seed)
    means = np.concatenate([times.astype(np.float64) @ values for times in drawn]) / count
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@lru_cache(maxsize=16)
def _resampled(count: int, seed: int) -> tuple[NDArray[np.uint16], ...]:
    """``_draws``, kept: they are the same for every row of so many prompts."""
    return tuple(_draws(count, seed))


def _draws(count: int, seed: int) -> Iterator[NDArray[np.uint16]]:
    """How often each of ``count`` values is drawn in each resampling, a part of the resamplings at a time."""
    rng = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // count)
    for done in range(0, RESAMPLES, at_once):
        part = min(at_once, RESAMPLES - done)
        places = rng.integers(0, count, (part, count)) + count * np.arange(part)[:, None]
        times = np.bincount(places.ravel(), minlength=part * count)
        yield times.reshape(part, count).astype(np.uint16)


def spread(values: Mapping[str, Sequence[float]]) -> Spread | None:
    """Summary of one metric, its values grouped by prompt. None when there is no value."""
    groups = [group for group in values.values() if group]
    if not groups:
        return None
    flat = np.asarray([value for group in groups for value in group])
    p10, median, p90 = (float(value) for value in np.quantile(flat, [0.1, 0.5, 0.9]))
    return Spread(
        requests=len(flat), prompts=len(groups), mean=float(flat.mean()), median=median, p10=p10, p90=p90
    )
