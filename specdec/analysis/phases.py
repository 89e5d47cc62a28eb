"""What the requests of a phase share, if variants are served one after the other.

A phase is a block: whatever happens in its hour, or to the server that was started for it, affects all its
requests alike. The variance of phases is estimated from the cells of a row, each a baseline's phase beside a
variant's: with two repeats and more as they lie around a steady drift; with one repeat (A-B-A) from the two
phases of the baseline alone, whose difference then counts as chance. Cells share phases, so they are fitted
by generalized least squares (Aitken, Proceedings of the Royal Society of Edinburgh 55, 1935).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from specdec.analysis.blocks import BlockSpread, block_spread, shared_share
from specdec.analysis.pairing import LogRatio
from specdec.metrics.tpot import TPOT
from specdec.runs.record import RequestRecord

Floats = NDArray[np.float64]
Cell = tuple[int, int]


def shared_spread(rows: Sequence[Sequence[LogRatio]]) -> BlockSpread | None:
    """The variance between phases, or between blocks where a run has no phases; None where nothing is known.

    Args:
        rows: the pairs of each row; rows of one variant and one baseline.
    """
    return _phase_spread(rows) if any(map(phased, rows)) else block_spread(rows)


def share_of(row: Sequence[LogRatio]) -> float:
    """Factor of that variance in the variance of a row's mean that the spread between its prompts does not
    show: the sum of the squares of the phases' weights. For ``n`` repeats, evenly spaced, ``(2 n - 0.5) /
    n^2``.
    """
    if not phased(row):
        return shared_share(row)
    totals: dict[tuple[str, str], float] = {}
    for pair in row:
        totals[pair.prompt] = totals.get(pair.prompt, 0.0) + pair.weight
    weights: dict[int, float] = {}
    for pair in row:
        own = pair.weight / totals[pair.prompt] / len(totals)
        for phase, sign in zip(pair.phases or (), (1, -1), strict=False):
            weights[phase] = weights.get(phase, 0.0) + sign * own
    return sum(weight**2 for weight in weights.values())


def phased(row: Sequence[LogRatio]) -> bool:
    """Whether the pairs of a row are of phases."""
    return bool(row) and row[0].phases is not None


def degrees_of(repeats: int) -> int:
    """Degrees of freedom of the variance between phases."""
    return max(1, 2 * repeats - 2)


def evenly(repeats: int) -> float:
    """``share_of`` of a row of so many repeats, evenly spaced."""
    return (2 * repeats - 0.5) / repeats**2


def _phase_spread(rows: Sequence[Sequence[LogRatio]]) -> BlockSpread | None:
    known = [fit for row in rows if (fit := _fitted(row)) is not None]
    if not known:
        return None
    # A phase lies on all rows alike, so that a second row is no second witness.
    variance, degrees = fmean(square for square, _ in known), min(degrees for _, degrees in known)
    uncertainty = variance / degrees**0.5
    return BlockSpread(variance, uncertainty, variance, uncertainty, degrees)


def _fitted(row: Sequence[LogRatio]) -> tuple[float, int] | None:
    """Mean square of a row's cells around a level and a steady drift, and its degrees of freedom."""
    values: dict[tuple[str, str], dict[Cell, list[float]]] = {}
    for pair in row:
        if pair.phases is not None:
            values.setdefault(pair.prompt, {}).setdefault(pair.phases, []).append(pair.value)
    cells = sorted({cell for by_cell in values.values() for cell in by_cell})
    # A prompt that misses a phase would have the others' level say something of it.
    whole = [by_cell for by_cell in values.values() if len(by_cell) == len(cells)]
    if len(cells) < 2 or not whole:
        return None
    means = np.asarray([fmean(fmean(by_cell[cell]) for by_cell in whole) for cell in cells])
    phases = sorted({phase for cell in cells for phase in cell})
    signs = np.zeros((len(cells), len(phases)))
    for place, (plain, other) in enumerate(cells):
        signs[place, phases.index(plain)] += 1
        signs[place, phases.index(other)] -= 1
    drift = signs @ np.asarray(phases, dtype=float)
    columns = np.ones((len(cells), 1)) if len(cells) == 2 else np.stack([np.ones(len(cells)), drift], axis=1)
    return _mean_square(means, columns, signs @ signs.T)


def _mean_square(values: Floats, columns: Floats, covariance: Floats) -> tuple[float, int] | None:
    degrees = len(values) - int(np.linalg.matrix_rank(columns))
    if degrees < 1:
        return None
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return None
    whitened, regressors = np.linalg.solve(root, values), np.linalg.solve(root, columns)
    solution = np.linalg.lstsq(regressors, whitened, rcond=None)[0]
    rest = whitened - regressors @ solution
    return float(rest @ rest) / degrees, degrees


@dataclass(frozen=True, slots=True)
class PhaseLevel:
    """One phase of a run that serves one variant after the other.

    Attributes:
        phase: 0-based.
        variant: the one that was served.
        requests: measured ones with a TPOT.
        minutes: from the run's first measured request to the middle of the phase.
        tpot: geometric mean over the prompts that every phase of the variant has, seconds; None where they
            share none.
        against_first: ``tpot`` over that of the variant's first phase.
    """

    phase: int
    variant: str
    requests: int
    minutes: float
    tpot: float | None
    against_first: float | None


def phase_levels(records: Sequence[RequestRecord]) -> tuple[PhaseLevel, ...]:
    """The phases of measured records, in order; empty where a run has none."""
    served: dict[tuple[int, str], list[RequestRecord]] = {}
    for record in records:
        if record.phase is not None and TPOT.of(record) is not None:
            served.setdefault((record.phase, record.variant), []).append(record)
    start = min((record.sent for group in served.values() for record in group), default=0.0)
    prompts: dict[str, set[tuple[str, str]]] = {}
    for (_, variant), group in served.items():
        own = {(record.test_case, record.prompt) for record in group}
        prompts[variant] = prompts.get(variant, own) & own
    levels: list[PhaseLevel] = []
    first: dict[str, float] = {}
    for (phase, variant), group in sorted(served.items()):
        logs = [
            log(value)
            for record in group
            if (record.test_case, record.prompt) in prompts[variant] and (value := TPOT.of(record))
        ]
        level = exp(fmean(logs)) if logs else None
        middle = fmean((min(r.sent for r in group), max(r.sent + (r.closed or 0.0) for r in group)))
        against = None if level is None else level / first.setdefault(variant, level)
        levels.append(PhaseLevel(phase, variant, len(group), (middle - start) / 60, level, against))
    return tuple(levels)
