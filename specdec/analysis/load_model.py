"""The window model with load: from what was measured at two loads or more to every window at every load.

A step of ``B`` sequences that verifies a window ``k`` of each takes::

    plain(B)   = floor(B, 1) + o0 + o1 B
    step(B, k) = plain(B) + floor(B, k + 1) - floor(B, 1) + (d0 + d1 B) g(k)

``floor`` is the larger of bytes and operations on the roofline, where the catalogue knows model and devices,
else 0. ``o`` is what the plain step takes beyond it, ``d`` what drafting and verifying take beyond it at the
measured window, both straight lines in the load; with two loads they are met, with more they are fitted.
``g`` is how the step's extra cost goes on at other windows, as ``step_cost`` draws it, 1 at the measured one.

Which proposals are accepted depends on the text alone, so tokens per step are those of the lowest load. The
report says where they were not (``load_sentences``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specdec.analysis.conventions import Floats
from specdec.analysis.observation import Observation, resampled
from specdec.analysis.window_model import SEED, Model, fit
from specdec.catalog.conventions import Convention
from specdec.catalog.roofline import Floor

DRAWS = 200


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line in the load, one per draw, the estimate first. Nowhere below 0 where it was fitted."""

    start: Floats
    slope: Floats

    @classmethod
    def through(cls, loads: Sequence[float], values: Floats) -> Line:
        """By least squares.

        Args:
            loads: two or more.
            values: one row per draw, one column per load.
        """
        at = np.asarray(loads, dtype=np.float64)
        # Relative errors count alike at every load, as they do in what is measured.
        weight = 1 / np.maximum(np.abs(values[0]), 1e-9) ** 2
        middle = float(weight @ at / weight.sum())
        away = weight * (at - middle)
        slope: Floats = values @ away / float(away @ (at - middle))
        start: Floats = values @ weight / weight.sum() - slope * middle
        return cls(start, slope)

    def at(self, load: float) -> Floats:
        """Value per draw."""
        result: Floats = np.maximum(self.start + self.slope * load, 0.0)
        return result


@dataclass(frozen=True, slots=True)
class _Case:
    """One test case: how texts fall into steps, and what steps take."""

    model: Model
    plain: Line
    extra: Line


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Fitted. Arrays have one row per draw, the estimate first, and one column per window.

    Attributes:
        loads: requests in flight that it was fitted on, ascending.
        window: whose cost was measured, and how far it was filled.
        windows: that are predicted.
        floor: see the module.
        cases: one per test case, each weighing the same.
    """

    loads: tuple[float, ...]
    window: float
    windows: range
    floor: Floor
    cases: tuple[_Case, ...]

    def baseline(self, load: float) -> Floats:
        """Seconds per token without speculation, per draw."""
        result: Floats = np.mean([self._plain(case, load) for case in self.cases], axis=0)
        return result

    def tpot(self, load: float) -> Floats:
        """Seconds per token at every window."""
        result: Floats = np.mean([self._tpot(case, load) for case in self.cases], axis=0)
        return result

    def _plain(self, case: _Case, load: float) -> Floats:
        return self.floor.at(load, 1) + case.plain.at(load)

    def _tpot(self, case: _Case, load: float) -> Floats:
        plain, model = self._plain(case, load)[:, None], case.model
        place = min(range(len(self.windows)), key=lambda i: abs(self.windows[i] - self.window))
        shape = (model.cost - 1) / np.maximum(model.cost[:, [place]] - 1, 1e-9)
        raised = np.array([self.floor.at(load, k + 1) - self.floor.at(load, 1) for k in self.windows])
        step = plain + raised + case.extra.at(load)[:, None] * shape
        result: Floats = model.plain * plain + (model.steps - model.plain) * step
        return result


def fit_loads(
    observations: Mapping[float, Mapping[str, Observation]],
    convention: Convention,
    *,
    floor: Floor,
    draws: int = DRAWS,
    seed: int = SEED,
) -> LoadModel | None:
    """Fits the model.

    Args:
        observations: of one window, by load and test case.
        convention: of the stack.
        floor: of a step; all zeros where nothing is known of model and devices.
        draws: resamplings of prompts and shapes of cost.
        seed: of the resampling.

    Returns:
        None with less than two loads on which the same test cases were observed.
    """
    loads = sorted(observations)
    names = [name for name in observations[loads[0]] if all(name in observations[load] for load in loads)]
    if len(loads) < 2 or not names:
        return None
    cases: list[_Case] = []
    window = 0.0
    for name in names:
        seen = [observations[load][name] for load in loads]
        window = float(seen[0].window)
        model = fit([seen[0]], convention, draws=draws, seed=seed)
        plain, step = zip(*(_steps(each, draws, seed) for each in seen), strict=True)
        verified = window * seen[0].fill + 1
        floors = np.array([floor.at(load, 1) for load in loads])
        raised = np.array([floor.at(load, verified) for load in loads]) - floors
        plains, steps = np.stack(plain, axis=1), np.stack(step, axis=1)
        cases.append(
            _Case(model, Line.through(loads, plains - floors), Line.through(loads, steps - plains - raised))
        )
    return LoadModel(tuple(loads), window, cases[0].model.windows(), floor, tuple(cases))


def _steps(observation: Observation, draws: int, seed: int) -> tuple[Floats, Floats]:
    """Seconds of a plain step and of one that verifies, per draw of the prompts."""
    weight = resampled(len(observation.steps), draws, np.random.default_rng(seed))
    plain: Floats = weight @ observation.baseline / weight.sum(axis=1)
    step: Floats = plain * observation.costs(weight)
    return plain, step
