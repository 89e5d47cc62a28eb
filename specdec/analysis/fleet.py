"""A fleet's ratio: total time, as a bill adds it up.

The geometric mean of ratios is what a user who sends one prompt may expect. A bill adds seconds: half the
prompts at 2.2 times the speed and half at 0.6 are 1.15 times as fast on average, and take 6% longer in sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import fmean

from specdec.analysis.pairing import LogRatio, Pair, log_ratios, prompt_means, timed_pairs
from specdec.runs.record import RequestRecord


def seconds_per_token(record: RequestRecord) -> float | None:
    """Time of the whole request over its output tokens: how long a token occupies a slot of the service."""
    if not record.output_tokens or not record.chunk_times:
        return None
    return record.chunk_times[-1] / record.output_tokens


def sums_ratio(paired: Sequence[Pair]) -> tuple[LogRatio, ...]:
    """Values whose mean over prompts is the logarithm of the ratio of sums, baseline over variant.

    Each pair's value is the logarithm of the ratio plus the pair's own pull on it, ``b / mean(b) - v /
    mean(v)`` with ``b``, ``v`` the seconds per token of either side: the linearisation that the delta method
    takes a ratio's variance from (Cochran, Sampling Techniques, 1977, section 6.4). So the interval is made
    as that of any row.
    """
    rows = log_ratios(paired, seconds_per_token)
    timed = [both for _, *both in timed_pairs(paired, seconds_per_token)]
    if not timed:
        return ()
    # Each prompt weighs the same, however often it was repeated.
    base, other = (
        fmean(prompt_means([_with(row, both[side]) for row, both in zip(rows, timed, strict=True)]))
        for side in (0, 1)
    )
    center = log(base / other)
    return tuple(
        _with(row, center + first / base - second / other)
        for row, (first, second) in zip(rows, timed, strict=True)
    )


def _with(row: LogRatio, value: float) -> LogRatio:
    # Not ``replace``, which takes ten times as long, and a run has thousands of pairs.
    return LogRatio(row.prompt, row.block, value, row.weight, row.phases)
