"""Which window at which load, and above which load none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from specdec.analysis.advice import WindowAdvice
from specdec.analysis.choice import SURE, Measured, confidence_in, most_telling, preferred
from specdec.analysis.load_model import LoadModel, fit_loads
from specdec.analysis.load_verdict import LoadWindow, WindowsOverLoad
from specdec.analysis.observation import Observation
from specdec.analysis.tuning import Evidence, advice_of, drafts_of, observed, windows_of
from specdec.catalog.roofline import Floor
from specdec.text import listed

MOST_LOADS = 32
"""Loads that are predicted, the measured ones among them."""


class LoadEvidence(Evidence, Protocol):
    """What advice over load is drawn from: ``Evidence`` of one load, and what the roofline needs."""

    def floor(self, variant: str) -> Floor:
        """The floor of a variant's step; zeros where it is not known."""
        ...


def windows_over_load(
    judges: Mapping[float, LoadEvidence],
) -> tuple[tuple[WindowAdvice, ...], tuple[WindowsOverLoad, ...]]:
    """Advice at the lowest load, per draft, each test case and the mix; and over load, per draft on the mix.
    Both come from one model of all that was measured, so that they agree.

    Args:
        judges: one per number of requests in flight, ascending.
    """
    first = next(iter(judges.values()))
    if not first.baselines:
        return (), ()
    lowest: list[WindowAdvice] = []
    rows: list[WindowsOverLoad] = []
    for measured in drafts_of(first):
        every = {load: observed(judge, measured) for load, judge in judges.items()}
        observations = {load: cases for load, cases in every.items() if cases}
        model = _model(observations, first, measured.variants[0])
        if model is None:
            lowest += windows_of(first, [measured])
            continue
        rows.append(over_load(measured, model))
        load = model.loads[0]
        lowest += advice_of(measured, observations[load], model.models(load))
    return tuple(lowest), tuple(rows)


def _model(
    observations: Mapping[float, Mapping[str, Sequence[Observation]]], first: LoadEvidence, variant: str
) -> LoadModel | None:
    if len(observations) < 2:
        return None
    return fit_loads(
        observations,
        first.convention,
        floor=first.floor(variant),
        loads=predicted_loads(sorted(observations)),
    )


def over_load(measured: Measured, model: LoadModel) -> WindowsOverLoad:
    """Advice on one draft, on the mix of test cases, at every load of the model."""
    rows: list[LoadWindow] = []
    for load in model.loads:
        before = [row.window for row in rows[-1:] if row.window is not None]
        rows.append(_at(model, load, (*before, *measured.windows)))
    on = [row.load for row in rows if row.window is not None]
    off = [row.load for row in rows if row.window is None]
    tidy = not on or all(load > max(on) for load in off)
    confirm = _confirm(model, rows, measured)
    return WindowsOverLoad(
        variants=measured.variants,
        draft=measured.draft,
        measured_windows=measured.windows,
        fitted=model.measured,
        roofline=model.floor != Floor(),
        rows=tuple(rows),
        off_above=max(on) if off and on and tidy else None,
        confirm=confirm,
        says=_says(rows, tidy=tidy) + _to_confirm(rows, confirm),
    )


def _at(model: LoadModel, load: float, kept: Sequence[int]) -> LoadWindow:
    """The advice at one load; ``kept`` are the window of the load below and the measured ones."""
    baseline, curves = model.baseline(load), model.tpot(load)
    best = preferred(curves[0], model.windows, kept)
    ratios = baseline / curves[:, best]
    pays = bool(ratios[0] > 1)
    low, high = np.quantile(ratios[1:], [0.05, 0.95])
    return LoadWindow(
        load=load,
        measured=load in model.measured,
        window=model.windows[best] if pays else None,
        best=model.windows[best],
        baseline_tpot=float(baseline[0]),
        speedup=float(ratios[0]),
        low=float(min(low, ratios[0])),
        high=float(max(high, ratios[0])),
        confidence=confidence_in(best if pays else None, curves, baseline, model.kinds),
    )


def _confirm(model: LoadModel, rows: Sequence[LoadWindow], measured: Measured) -> int | None:
    """The window to measure next: one that tells most where some load's advice is not sure, else the
    recommended one that was not measured.
    """
    if any(row.confidence < SURE for row in rows):
        services = [(model.tpot(load)[1:], model.baseline(load)[1:]) for load in model.loads]
        return most_telling(services, model.windows, measured.windows)
    new = [row.window for row in rows if row.window is not None and row.window not in measured.windows]
    return max(new, key=new.count, default=None)


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


def _to_confirm(rows: Sequence[LoadWindow], confirm: int | None) -> str:
    if confirm is None:
        return ""
    unsure = [row.load for row in rows if row.confidence < SURE]
    if not unsure:
        return f". Measure window {confirm} over the same loads before you use it"
    return (
        f". Not sure {_from_to([unsure[0], unsure[-1]] if len(unsure) > 1 else unsure)}: measure window"
        f" {confirm} over the same loads"
    )


def _says(rows: Sequence[LoadWindow], *, tidy: bool) -> str:
    lowest, highest = rows[0].load, rows[-1].load
    sure = f"{min(row.confidence for row in rows):.0%}"
    on = [row.load for row in rows if row.window is not None]
    if not on:
        return f"leave speculation off from {lowest:g} to {highest:g} requests in flight ({sure} sure)"
    words = listed(
        [f"window {window} {_from_to(loads)}" for window, loads in _spans(rows) if window is not None]
    )
    if not tidy:
        return f"{words}; off in between (the choice is at least {sure} sure at every load)"
    if on[-1] == highest:
        return (
            f"{words}: it pays at every load from {lowest:g} to {highest:g} (the choice of window is at least"
            f" {sure} sure at every load)"
        )
    certain = f"the choice is at least {sure} sure at every load"
    return f"{words}; off above {on[-1]:g} requests in flight ({certain}). {WAYS}"


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
