"""The window model with load: from what was measured at two loads or more to every window at every load.

A step of ``B`` sequences that verifies a window ``k`` of each takes::

    plain(B)   = floor(B, 1) + o(B)
    step(B, k) = plain(B) + floor(B, k + 1) - floor(B, 1) + extra(B, k)

``floor`` is the larger of bytes and operations on the roofline, where the catalogue knows model and devices,
else 0. ``o`` is what the plain step takes beyond it: measured, and on straight lines between measured loads.
``extra`` is what drafting and verifying take beyond it: one surface over load and window, drawn from all
measured pairs of them together (``step_surface``).

Which proposals are accepted depends on the text alone, so tokens per step are those of the lowest load. The
report says where they were not (``load_sentences``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specdec.analysis.conventions import Floats
from specdec.analysis.observation import Observation, resampled
from specdec.analysis.step_cost import fit_line
from specdec.analysis.step_surface import REACH, Measured, fit_surfaces, root_of
from specdec.analysis.surface_kinds import Pairs
from specdec.analysis.window_model import DRAWS, SEED, Model, fit
from specdec.catalog.conventions import Convention
from specdec.catalog.roofline import Floor

BEND = 0.08
"""How far a plain step may be off the straight line far from every measured load, as a share of it: one
standard deviation."""


@dataclass(frozen=True, slots=True)
class _Case:
    """One test case: how texts fall into steps; and what a plain step takes, one row per draw and one column
    per load, and one that verifies, with the windows as a third axis.
    """

    model: Model
    plain: Floats
    step: Floats


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Fitted. Arrays have one row per draw, the estimate first.

    Attributes:
        measured: loads that it was fitted on, ascending.
        loads: that are predicted, ascending.
        windows: that are predicted.
        floor: see the module.
        kinds: number of the kind of surface that each draw has, the estimate left out.
        cases: by name of the test case, each weighing the same.
    """

    measured: tuple[float, ...]
    loads: tuple[float, ...]
    windows: range
    floor: Floor
    kinds: NDArray[np.int64]
    cases: dict[str, _Case]

    def baseline(self, load: float) -> Floats:
        """Seconds per token without speculation, per draw."""
        result: Floats = np.mean([model.baseline for model in self.models(load).values()], axis=0)
        return result

    def tpot(self, load: float) -> Floats:
        """Seconds per token, one column per window."""
        result: Floats = np.mean([model.curve() for model in self.models(load).values()], axis=0)
        return result

    def models(self, load: float) -> dict[str, Model]:
        """The window model of each test case at one of ``loads``."""
        place = self.loads.index(load)
        return {name: _at(case, place, self.kinds) for name, case in self.cases.items()}


def _at(case: _Case, place: int, kinds: NDArray[np.int64]) -> Model:
    plain = case.plain[:, place]
    cost = case.step[:, place] / plain[:, None]
    fixed, slope = fit_line(np.asarray(case.model.windows(), dtype=np.float64), cost[0] - 1)
    return replace(case.model, baseline=plain, cost=cost, kinds=kinds, fixed=fixed, slope=slope)


def fit_loads(
    observations: Mapping[float, Mapping[str, Sequence[Observation]]],
    convention: Convention,
    *,
    floor: Floor,
    loads: Sequence[float],
    draws: int = DRAWS,
    seed: int = SEED,
) -> LoadModel | None:
    """Fits the model.

    Args:
        observations: of every measured window of one draft, by load and test case.
        convention: of the stack.
        floor: of a step; all zeros where nothing is known of model and devices.
        loads: to predict, between the lowest and the highest observed.
        draws: resamplings of prompts and surfaces.
        seed: of the resampling.

    Returns:
        None with less than two loads on which the same test cases were observed.
    """
    measured = sorted(observations)
    names = [name for name in observations[measured[0]] if all(observations[o].get(name) for o in measured)]
    if len(measured) < 2 or not names:
        return None
    rng = np.random.default_rng([seed, 2])
    wanted = tuple(float(load) for load in loads)
    by_load = {name: {load: observations[load][name] for load in measured} for name in names}
    models = [fit(_lowest(by_load[name]), convention, draws=draws, seed=seed) for name in names]
    seen = [_seen(by_load[name], floor, draws, seed) for name in names]
    windows = models[0].windows()
    fills = [one.fill for case in by_load.values() for every in case.values() for one in every]
    grid = Pairs(
        np.repeat(np.asarray(wanted), len(windows)),
        np.tile(np.asarray(windows) * float(np.mean(fills)), len(wanted)),
    )
    bend = _bends(measured, wanted, draws, rng)
    plains = [_between(measured, plain, wanted, floor) * bend for plain, _ in seen]
    levels = [np.repeat(plain[0], len(windows)) for plain in plains]
    surfaces = fit_surfaces([beyond for _, beyond in seen], grid, levels, rng)
    shape = (-1, len(wanted), len(windows))
    rise = _rise(floor, grid).reshape(shape)
    cases = {
        name: _Case(model, plain, plain[:, :, None] + rise + extra.reshape(shape))
        for name, model, plain, extra in zip(names, models, plains, surfaces.extra, strict=True)
    }
    return LoadModel(tuple(measured), wanted, windows, floor, surfaces.kinds, cases)


def _seen(
    by_load: Mapping[float, Sequence[Observation]], floor: Floor, draws: int, seed: int
) -> tuple[Floats, Measured]:
    """Of one test case: seconds of a plain step, one row per draw of the prompts and one column per load; and
    what a surface is fitted to.
    """
    plains: list[Floats] = []
    steps: list[Floats] = []
    for observations in by_load.values():
        for observation in observations:
            # The same prompts are drawn at every load and window.
            weight = resampled(len(observation.steps), draws, np.random.default_rng(seed))
            plains.append(weight @ observation.baseline / weight.sum(axis=1))
            steps.append(plains[-1] * observation.costs(weight))
    pairs = Pairs(
        np.asarray([load for load, every in by_load.items() for _ in every]),
        np.asarray([one.window * one.fill for every in by_load.values() for one in every]),
    )
    plain = np.stack(plains, axis=1)
    beyond = Measured(pairs, plain, np.stack(steps, axis=1) - plain - _rise(floor, pairs))
    means = [plain[:, pairs.loads == load].mean(axis=1) for load in by_load]
    return np.stack(means, axis=1), beyond


def _lowest(by_load: Mapping[float, Sequence[Observation]]) -> list[Observation]:
    """Every window at the lowest load at which it was observed."""
    chosen: dict[int, Observation] = {}
    for observations in by_load.values():
        for observation in observations:
            chosen.setdefault(observation.window, observation)
    return [chosen[window] for window in sorted(chosen)]


def _rise(floor: Floor, pairs: Pairs) -> Floats:
    """Seconds by which the floor of a verifying step lies above that of a plain one."""
    both = zip(pairs.loads.tolist(), pairs.positions.tolist(), strict=True)
    return np.asarray([floor.at(load, positions + 1) - floor.at(load, 1) for load, positions in both])


def _between(measured: Sequence[float], plain: Floats, wanted: Sequence[float], floor: Floor) -> Floats:
    """A plain step at each wanted load: measured, or on a straight line beyond the floor."""
    known = np.asarray([floor.at(load, 1) for load in measured])
    lowest = np.asarray([floor.at(load, 1) for load in wanted])
    beyond: Floats = np.maximum(plain - known, 0.0)
    result = np.empty((len(plain), len(wanted)))
    for row, values in enumerate(beyond):
        result[row] = lowest + np.interp(wanted, measured, values)
    return result


def _bends(
    measured: Sequence[float], wanted: Sequence[float], draws: int, rng: np.random.Generator
) -> Floats:
    """Factors by which a plain step is off the straight line between measured loads: 1 for the estimate and
    at every measured load, then one row per draw.
    """
    known, asked = np.log2(np.asarray(measured)), np.log2(np.asarray(wanted))

    def alike(one: Floats, other: Floats) -> Floats:
        result: Floats = np.exp(-0.5 * (np.subtract.outer(one, other) / REACH) ** 2)
        return result

    carry = np.linalg.solve(alike(known, known) + 1e-9 * np.eye(len(known)), alike(known, asked)).T
    root = root_of(alike(asked, asked) - carry @ alike(known, asked))
    drawn = np.exp(BEND * rng.standard_normal((draws, len(asked))) @ root.T)
    result: Floats = np.vstack([np.ones(len(asked)), drawn])
    return result
