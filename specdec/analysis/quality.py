"""Does a variant give right answers as often as the baseline? Paired by task, with the limits of what that
can show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from statistics import NormalDist
from typing import Literal

from specdec.analysis.verdict import Interval
from specdec.quality.tasks import Task
from specdec.runs.manifest import RunManifest
from specdec.runs.record import RequestRecord

LEVEL = 0.95

QualityState = Literal["worse", "better", "no difference shown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityTest:
    """One variant against the baseline over the tasks that both answered.

    Attributes:
        variant, against: names.
        source: which tasks: ``shipped``, or the task and filter of lm-eval.
        tasks: that both answered.
        right: how many each answered rightly, the baseline's first.
        only: answered rightly by one side alone, the baseline's first.
        unanswered: tasks left out, since a request of either side failed.
        p_value: exact McNemar test.
        loss: share of right answers of the baseline less the variant's, with its interval.
        state: from the test, at 5%.
        says: the result as a sentence.
    """

    variant: str
    against: str
    source: str
    tasks: int
    right: tuple[int, int]
    only: tuple[int, int]
    unanswered: int
    p_value: float
    loss: float
    interval: Interval
    state: QualityState
    says: str


def mcnemar(first: int, second: int) -> float:
    """Two-sided chance of counts of discordant pairs as unequal under no difference, exact (binomial)."""
    total = first + second
    tail = sum(comb(total, count) for count in range(min(first, second) + 1)) / 2**total
    return min(1.0, 2 * tail)


def loss_interval(pairs: int, first: int, second: int, level: float = LEVEL) -> Interval:
    """Score interval of a difference of paired shares (Tango, Statistics in Medicine 17, 1998).

    Args:
        pairs: all, at least one.
        first: pairs in which the baseline alone is right.
        second: pairs in which the other alone is.
        level: confidence.
    """
    limit = NormalDist().inv_cdf((1 + level) / 2)

    def score(loss: float) -> float:
        a, b = 2 * pairs, -first - second + (2 * pairs - first + second) * loss
        c = -second * loss * (1 - loss)
        share = (sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
        variance = pairs * (2 * share + loss * (1 - loss))
        difference = first - second - pairs * loss
        return 0.0 if difference == 0 else difference / sqrt(max(variance, 1e-12))

    def root(low: float, high: float, target: float) -> float:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if score(middle) > target else (low, middle)
        return (low + high) / 2

    estimate = (first - second) / pairs
    return Interval(root(-1.0, estimate, limit), root(estimate, 1.0, -limit), level)


def quality_tests(
    manifest: RunManifest, records: Sequence[RequestRecord], tasks: Sequence[Task]
) -> tuple[QualityTest, ...]:
    """Every variant against the first baseline; empty where nothing was asked."""
    known = {task.id: task for task in tasks}
    right: dict[str, dict[str, bool]] = {}
    for record in records:
        if record.outcome in ("ok", "early-eos") and record.prompt in known:
            right.setdefault(record.variant, {})[record.prompt] = known[record.prompt].right(record.text)
    asked = len({record.prompt for record in records})
    return scored(manifest, right, "shipped", asked)


def scored(
    manifest: RunManifest, right: Mapping[str, Mapping[str, bool]], source: str, asked: int
) -> tuple[QualityTest, ...]:
    """Every variant against the first baseline.

    Args:
        manifest: of the run.
        right: by variant and task, whether the answer is right; tasks without an answer are absent.
        source: see ``QualityTest``.
        asked: number of tasks.
    """
    baseline = next((name for name, v in manifest.variants.items() if v.get("role") == "baseline"), None)
    if baseline is None or not right.get(baseline):
        return ()
    others = [name for name in manifest.variants if name != baseline and right.get(name)]
    return tuple(_test(baseline, name, right[baseline], right[name], source, asked) for name in others)


def _test(
    against: str, variant: str, ours: Mapping[str, bool], theirs: Mapping[str, bool], source: str, asked: int
) -> QualityTest:
    both = sorted(ours.keys() & theirs.keys())
    only = sum(ours[t] and not theirs[t] for t in both), sum(theirs[t] and not ours[t] for t in both)
    right = sum(ours[task] for task in both), sum(theirs[task] for task in both)
    p_value = mcnemar(*only)
    interval = loss_interval(max(1, len(both)), *only)
    state: QualityState = "no difference shown"
    if p_value < 1 - LEVEL:
        state = "worse" if only[0] > only[1] else "better"
    missing = f"; {asked - len(both)} of {asked} were not answered by both" if len(both) < asked else ""
    counts = f"{variant} answers {right[1]} of {len(both)} tasks rightly, {against} {right[0]}"
    words = f" ({source})" if source != "shipped" else ""
    end = f"no loss larger than {100 * max(0.0, interval.high):.0f} points"
    if state == "worse":
        end = f"a loss of {100 * max(0.0, interval.low):.0f} to {100 * interval.high:.0f} points"
    says = (
        f"{counts}{words}: {only[0]} only by {against}, {only[1]} only by {variant}"
        f" (McNemar p = {p_value:.2g}), {end} at {LEVEL:.0%} confidence{missing}"
    )
    return QualityTest(
        variant=variant,
        against=against,
        source=source,
        tasks=len(both),
        right=right,
        only=only,
        unanswered=asked - len(both),
        p_value=p_value,
        loss=(only[0] - only[1]) / max(1, len(both)),
        interval=interval,
        state=state,
        says=says,
    )
