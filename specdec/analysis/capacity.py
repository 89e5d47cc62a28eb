"""The throughput of a service at each load, and how much load it carries within an objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil, inf, isfinite, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from specdec.analysis.distributions import t_quantile
from specdec.metrics.objective import Objective
from specdec.metrics.system_throughput import system_throughput
from specdec.runs.record import RequestRecord

DRAWS = 1000
SEED = 20260415
MIN_PROMPTS = 3

Strains = Mapping[str, Sequence[float]]
"""``Objective.strain`` of the requests at one load, by prompt."""


def requests_per_second(records: Sequence[RequestRecord]) -> float | None:
    """Requests that ended, per second; one that was cut off by the end of its block counts for the part of
    its tokens that had come. Records as for ``system_throughput``.
    """
    rate = system_throughput(records)
    lengths = [r.output_tokens for r in records if r.output_tokens and r.outcome == "ok" and not r.warmup]
    return rate * len(lengths) / sum(lengths) if rate is not None and lengths else None


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered) - 1e-9) - 1)]


def carried(loads: Sequence[float], strains: Sequence[float]) -> tuple[float | None, bool]:
    """The largest load up to which an objective is kept, and whether that is all that was measured.

    Between the last load that keeps it and the next one the strain is taken as a straight line. A request
    that failed there has no strain: the last load that keeps the objective is then the answer.

    Args:
        loads: measured, ascending.
        strains: quantile of the strain at each, see ``Objective.strain``.

    Returns:
        None for the load where the first already misses the objective.
    """
    if not loads or strains[0] > 1:
        return None, False
    for (load, strain), (higher, more) in pairwise(zip(loads, strains, strict=True)):
        if more > 1:
            part = (1 - strain) / (more - strain) if isfinite(more) else 0.0
            return load + (higher - load) * part, False
    return loads[-1], True


def interval(draws: Sequence[float | None], prompts: int, *, level: float) -> tuple[float, float] | None:
    """Interval of a resampled quantity, widened for few prompts (the expanded percentile interval:
    Hesterberg, The American Statistician 69, 2015, section 3.3.3).

    A draw that is None lies below every other. None with fewer than three prompts or no draw with a value.
    """
    known = np.asarray([-inf if draw is None else draw for draw in draws], dtype=np.float64)
    if prompts < MIN_PROMPTS or not np.isfinite(known).any():
        return None
    tail = _expanded_tail(prompts, level)
    low, high = np.quantile(known, [tail, 1 - tail], method="nearest")
    lowest = float(known[np.isfinite(known)].min())
    return float(max(low, lowest)), float(max(high, lowest))


def resampled_strains(
    loads: Sequence[float],
    variants: Mapping[str, Mapping[float, Strains]],
    share: float,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> dict[str, list[float | None]]:
    """Carried load of every variant, once per resampling of the prompts; one resampling serves all variants,
    so that their ratio is paired.
    """
    prompts = sorted(
        {prompt for points in variants.values() for point in points.values() for prompt in point}
    )
    rng = np.random.default_rng(seed)
    weights: NDArray[np.float64] = rng.multinomial(
        len(prompts), np.full(len(prompts), 1 / len(prompts)), size=draws
    ).astype(np.float64)
    carried_loads: dict[str, list[float | None]] = {}
    for variant, points in variants.items():
        quantiles = [_weighted_quantiles(points[load], prompts, weights, share) for load in loads]
        carried_loads[variant] = [
            carried(loads, [float(q[draw]) for q in quantiles])[0] for draw in range(draws)
        ]
    return carried_loads


def strains_of(records: Sequence[RequestRecord], objective: Objective) -> dict[str, list[float]]:
    """Strain of every request, failed ones too, by prompt."""
    strains: dict[str, list[float]] = {}
    for record in records:
        strains.setdefault(record.prompt, []).append(objective.strain(record))
    return strains


def _weighted_quantiles(
    point: Strains, prompts: Sequence[str], weights: NDArray[np.float64], share: float
) -> NDArray[np.float64]:
    """The quantile of one point under every row of prompt weights."""
    values = np.asarray([value for prompt in prompts for value in point.get(prompt, ())])
    owners = np.asarray([i for i, prompt in enumerate(prompts) for _ in point.get(prompt, ())], dtype=int)
    order = np.argsort(values, kind="stable")
    heaps = weights[:, owners[order]].cumsum(axis=1)
    reached = heaps >= share * heaps[:, -1:] - 1e-9
    quantiles: NDArray[np.float64] = values[order][reached.argmax(axis=1)]
    return quantiles


def _expanded_tail(prompts: int, level: float) -> float:
    wider = t_quantile(prompts - 1, (1 + level) / 2) * sqrt(prompts / (prompts - 1))
    return 1 - NormalDist().cdf(wider)
