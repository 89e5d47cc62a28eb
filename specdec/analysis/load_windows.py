"""Which window at which load, and above which load none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Protocol

import numpy as np

from specdec.analysis.choice import CLOSE
from specdec.analysis.load_model import LoadModel, fit_loads
from specdec.analysis.load_verdict import LoadWindow, WindowsOverLoad
from specdec.analysis.observation import Observation
from specdec.analysis.tuning import Evidence, drafts_of, observation_of
from specdec.catalog.roofline import Floor
from specdec.text import listed

MOST_LOADS = 32
"""Loads that are predicted, the measured ones among them."""

SUREST_UNMEASURED = 0.75
"""Confidence in a window that was not measured, at most. One window cannot tell which part of its cost every
window has, and a wrong guess of that grows with the load.
"""


class LoadEvidence(Evidence, Protocol):
    """What advice over load is drawn from: ``Evidence`` of one load, and what the roofline needs."""

    def floor(self, variant: str) -> Floor:
        """The floor of a variant's step; zeros where it is not known."""
        ...


def windows_over_load(judges: Mapping[float, LoadEvidence]) -> tuple[WindowsOverLoad, ...]:
    """Advice per draft, on the mix of test cases.

    Args:
        judges: one per number of requests in flight, ascending.
    """
    first = next(iter(judges.values()))
    if not first.baselines:
        return ()
    advice: list[WindowsOverLoad] = []
    for measured in drafts_of(first):
        # The largest window says most: what it accepted tells of every smaller one.
        variant, window = measured.variants[-1], measured.windows[-1]
        observations = {
            load: cases for load, judge in judges.items() if (cases := _observed(judge, variant, window))
        }
        if len(observations) < 2:
            continue
        model = fit_loads(observations, first.convention, floor=first.floor(variant))
        if model is not None:
            advice.append(_advise(variant, measured.draft, model))
    return tuple(advice)


def _observed(judge: LoadEvidence, variant: str, window: int) -> dict[str, Observation]:
    return {
        case: observation
        for case in judge.test_cases
        if (observation := observation_of(judge, variant, window, case)) is not None
    }


def _advise(variant: str, draft: str | None, model: LoadModel) -> WindowsOverLoad:
    rows = tuple(_at(model, load) for load in predicted_loads(model.loads))
    on = [row.load for row in rows if row.window is not None]
    off = [row.load for row in rows if row.window is None]
    above = max(on, default=None)
    tidy = not on or all(load > max(on) for load in off)
    return WindowsOverLoad(
        variant=variant,
        draft=draft,
        window=round(model.window),
        fitted=model.loads,
        roofline=model.floor != Floor(),
        rows=rows,
        off_above=above if off and on and tidy else None,
        says=_says(rows, above, tidy=tidy) + _unmeasured(rows, round(model.window)),
    )


def _at(model: LoadModel, load: float) -> LoadWindow:
    baseline, curves = model.baseline(load), model.tpot(load)
    best = int(curves[0].argmin())
    ratios = baseline / curves[:, best]
    pays = bool(ratios[0] > 1)
    chosen = curves[:, best] if pays else baseline
    ideal = np.minimum(curves.min(axis=1), baseline)
    low, high = np.quantile(ratios[1:], [0.05, 0.95])
    confidence = float((chosen[1:] <= (1 + CLOSE) * ideal[1:]).mean())
    if pays and model.windows[best] != round(model.window):
        confidence = min(confidence, SUREST_UNMEASURED)
    return LoadWindow(
        load=load,
        measured=load in model.loads,
        window=model.windows[best] if pays else None,
        best=model.windows[best],
        baseline_tpot=float(baseline[0]),
        speedup=float(ratios[0]),
        low=float(min(low, ratios[0])),
        high=float(max(high, ratios[0])),
        confidence=confidence,
    )


def predicted_loads(measured: Sequence[float]) -> list[float]:
    """Whole numbers of requests in flight from the lowest to the highest measured, not all where they are
    many: nothing is said outside.
    """
    low, high = int(measured[0]), int(measured[-1])
    every = [float(load) for load in range(low, high + 1)]
    if len(every) > MOST_LOADS:
        spread = np.geomspace(low, high, MOST_LOADS - len(measured))
        every = sorted({float(round(load)) for load in spread} | set(measured))
    return every


def _unmeasured(rows: Sequence[LoadWindow], window: int) -> str:
    """What to add where the words recommend a window that was not measured."""
    others = sorted({row.window for row in rows if row.window not in (None, window)})
    if not others:
        return ""
    them = listed([str(other) for other in others])
    return f". This rests on window {window} alone: measure {them} over the same loads before you use them"


def _says(rows: Sequence[LoadWindow], above: float | None, *, tidy: bool) -> str:
    lowest, highest = rows[0].load, rows[-1].load
    if above is None:
        return f"leave speculation off from {lowest:g} to {highest:g} requests in flight"
    spans = list(_spans(rows))
    words = listed([f"window {window} {_from_to(loads)}" for window, loads in spans if window is not None])
    if not tidy:
        return f"{words}; off in between"
    if above == highest:
        return f"{words}: it pays at every load from {lowest:g} to {highest:g}"
    sure = fmean(row.confidence for row in rows)
    return f"{words}; off above {above:g} requests in flight ({sure:.0%} sure). {WAYS}"


WAYS = (
    "Ways to do so: disable_by_batch_size in vLLM's speculative configuration, where the stack's vLLM has it;"
    " or a second service without a draft, and a router that sends to it above that load"
)


def _spans(rows: Sequence[LoadWindow]) -> list[tuple[int | None, list[float]]]:
    """Neighbouring loads with one recommendation."""
    spans: list[tuple[int | None, list[float]]] = []
    for row in rows:
        if spans and spans[-1][0] == row.window:
            spans[-1][1].append(row.load)
        else:
            spans.append((row.window, [row.load]))
    return spans


def _from_to(loads: Sequence[float]) -> str:
    return f"at {loads[0]:g}" if len(loads) == 1 else f"from {loads[0]:g} to {loads[-1]:g}"
