"""Is a difference real, and how many prompts would tell? Paired ratios, their intervals, and the decision.

A prompt is the unit of chance: repeats of it are averaged first. The interval of a ratio is, at each end, the
wider of two: Student's t on the logarithms, which knows what few prompts are worth (its spread steadied by
the other rows, see ``moderation``), and the bootstrap percentile, which knows when the prompts are skewed.
Rows that are read together share one error: each is given at the level ``1 - (1 - joint) / rows``
(Bonferroni), so that two identical services are called different in few runs, not in few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, variance

import numpy as np
from numpy.typing import NDArray

from specdec.analysis.distributions import chi_square_quantile, t_quantile
from specdec.analysis.moderation import NOTHING_COMMON, CommonSpread
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

SEED = 20260415
RESAMPLES = 4000


def row_level(rows: int, joint: float = JOINT_LEVEL) -> float:
    """Confidence each of ``rows`` intervals needs for all to hold together at ``joint``."""
    return 1 - (1 - joint) / max(1, rows)


def paired_ratio(
    clusters: Mapping[tuple[str, str], Sequence[float]],
    *,
    level: float,
    common: CommonSpread = NOTHING_COMMON,
    margin: float = MARGIN,
    seed: int = SEED,
) -> PairedRatio | None:
    """Geometric mean ratio with its interval and the prompts that would settle it.

    Args:
        clusters: logarithms of the ratio, grouped by prompt; see ``pairing.log_ratios``.
        level: confidence of the interval by itself.
        common: what the rows read together say about the spread.
        margin: relative difference that matters.
        seed: of the resampling, so that one run has one answer.

    Returns:
        None when there is no pair at all.
    """
    if not clusters:
        return None
    means = [fmean(values) for values in clusters.values()]
    count = len(means)
    center = fmean(means)
    pair_count = sum(len(values) for values in clusters.values())
    if count < MIN_PROMPTS:
        return PairedRatio(
            value=exp(center),
            interval=None,
            prompts=count,
            pairs=pair_count,
            needed_prompts=None,
            more_prompts=MIN_PROMPTS - count,
        )
    moderated, degrees = common.moderate(variance(means), count - 1)
    spread = sqrt(moderated)
    half = t_quantile(degrees, (1 + level) / 2) * spread / sqrt(count)
    low, high = _bootstrap_mean(np.asarray(means), level, seed)
    interval = Interval(exp(min(low, center - half)), exp(max(high, center + half)), level)
    plan = _Plan(spread=spread, borrowed=degrees - (count - 1), level=level)
    needed = plan.to_find(log(1 + margin), pilot=count)
    more = 0
    if decide(interval, margin) == "undecided":
        more = max(1, plan.to_settle(center, log(1 + margin)) - count)
    return PairedRatio(
        value=exp(center),
        interval=interval,
        prompts=count,
        pairs=pair_count,
        needed_prompts=needed,
        more_prompts=more,
    )


def decide(interval: Interval | None, margin: float = MARGIN) -> Decision:
    """The decision an interval of baseline over variant carries."""
    if interval is None:
        return "undecided"
    if interval.low > 1 / (1 + margin) and interval.high < 1 + margin:
        return "no difference"
    if interval.low > 1:
        return "helps"
    return "hurts" if interval.high < 1 else "undecided"


@dataclass(frozen=True, slots=True)
class _Plan:
    """How many prompts a later run needs.

    Attributes:
        spread: standard deviation of the log ratios over prompts.
        borrowed: degrees of freedom that other rows lend.
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
        degrees = pilot - 1 + self.borrowed
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
        return t_quantile(count - 1 + self.borrowed, probability)

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


def _bootstrap_mean(values: NDArray[np.float64], level: float, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    means = values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def spread(
    values: Mapping[str, Sequence[float]], *, level: float = JOINT_LEVEL, seed: int = SEED
) -> Spread | None:
    """Summary of one metric, its values grouped by prompt. None when there is no value.

    The interval of the median resamples prompts; it serves to draw the spread, decisions rest on paired
    ratios.
    """
    groups = [list(group) for group in values.values() if group]
    if not groups:
        return None
    flat = np.asarray([value for group in groups for value in group])
    p10, median, p90 = (float(value) for value in np.quantile(flat, [0.1, 0.5, 0.9]))
    interval = None
    if len(groups) >= MIN_PROMPTS:
        padded = np.full((len(groups), max(map(len, groups))), np.nan)
        for row, group in enumerate(groups):
            padded[row, : len(group)] = group
        draws = np.random.default_rng(seed).integers(0, len(groups), (1000, len(groups)))
        medians = np.nanmedian(padded[draws].reshape(1000, -1), axis=1)
        low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
        interval = Interval(float(low), float(high), level)
    return Spread(
        requests=len(flat),
        prompts=len(groups),
        mean=float(flat.mean()),
        median=median,
        p10=p10,
        p90=p90,
        interval=interval,
    )
