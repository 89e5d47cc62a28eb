"""For which configuration the verdict holds, and what ``specdec estimate``'s model says of the others."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import TYPE_CHECKING

from specdec.analysis.conventions import is_local, strangers
from specdec.report.content import Cell, Section, Table, cell, columns
from specdec.report.numbers import Number, percent
from specdec.report.parts.view import View

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment
    from specdec.pricing.predict import Prediction

_ELSEWHERE = (
    "A draft pays earlier where plain steps wait for memory than where they wait for layers and collectives,"
    " so the verdict is not carried over. For the instances of the catalogue that could run this experiment,"
    " published step costs give the acceptance above which the draft would pay: the lower end in the best"
    " case, the upper in the worst. It is held against the acceptance measured here, which belongs to models"
    " and prompts and not to the instance. Predicted, not measured."
)


def section(view: View) -> Section | None:
    """What ran, in one sentence, and the model's view of every other instance; None where the run was not on
    an accelerator of the catalogue.
    """
    manifest = view.run.manifest
    if not view.complete or is_local(manifest) or strangers(manifest):
        return None
    experiment = manifest.configured
    if experiment is None:
        return None
    rows = tuple(_rows(view, experiment))
    heads = columns("Instance", "Services", "Variant", ">Measured acceptance", ">Pays above", "~Then")
    texts = (_configuration(experiment), *((_ELSEWHERE,) if rows else ()))
    tables = (Table("The same experiment elsewhere, by the model", heads, rows),) if rows else ()
    return Section("elsewhere", "Where this holds", texts, tables=tables)


def _configuration(experiment: Experiment) -> str:
    services = "; ".join(
        f"{variant.name}: {settings.devices} device{'s' if settings.devices > 1 else ''}, tensor parallel"
        f" degree {settings.tensor_parallel_degree}, up to {settings.max_num_seqs} at once"
        for variant in experiment.variants
        for settings in (experiment.settings(variant),)
    )
    loads = experiment.benchmark.loads or (experiment.benchmark.concurrency,)
    load = ", ".join(f"{load:g}" for load in loads)
    closed = experiment.benchmark.arrival == "closed"
    offered = f"{load} in flight" if closed else "the offered rate"
    return (
        f"The verdict holds for {experiment.capacity.instance_type} with LNC"
        f" {experiment.serving.logical_core_size} on {experiment.serving.stack}, at {offered} ({services})."
    )


def _rows(view: View, experiment: Experiment) -> Iterator[tuple[Cell, ...]]:
    from specdec.catalog.instances import INSTANCES
    from specdec.pricing.elsewhere import fit
    from specdec.pricing.predict import predict

    region = experiment.regions[0]
    for instance in INSTANCES.values():
        own = instance.type == experiment.capacity.instance_type
        moved = experiment if own else fit(experiment, instance, region)[0]
        if moved is None:
            continue
        # One claim and one degree for every service, other than where the experiment already is.
        settings = moved.settings(moved.variants[0])
        shape = "as here" if own else f"{settings.devices} devices, TP{settings.tensor_parallel_degree}"
        for prediction in predict(moved, region):
            measured = _measured(view, prediction.variant)
            if prediction.break_even is None or measured is None:
                continue
            yield (
                cell(f"{instance.type}{' (here)' if own else ''}"),
                cell(shape.replace("1 devices", "1 device") if settings.devices == 1 else shape),
                cell(prediction.variant),
                cell(measured),
                cell(_range(prediction)),
                cell(_then(measured.value, prediction), tone="quiet"),
            )


def _measured(view: View, variant: str) -> Number | None:
    """Acceptance of a variant, the mean over its test cases."""
    known = [
        m
        for m in view.verdict.measurements
        if m.variant == variant and m.acceptance is not None and m.acceptance.rate is not None
    ]
    rates = [m.acceptance.rate for m in known if m.acceptance is not None and m.acceptance.rate is not None]
    if not rates:
        return None
    lines = sorted({line for m in known for line in view.trace.measured(m.test_case, variant)})
    how = f"mean over {len(rates)} test cases of the share of proposals kept, of those reached"
    return view.trace.number(f"elsewhere/{variant}", fmean(rates), "share", percent(fmean(rates)), how, lines)


def _range(prediction: Prediction) -> str:
    low, high = prediction.break_even or (None, None)
    if low is None:
        return "never"
    return f"{percent(low)} to {'never' if high is None else percent(high)}"


def _then(rate: float, prediction: Prediction) -> str:
    low, high = prediction.break_even or (None, None)
    if low is None or rate < low:
        return "would not pay"
    return "would pay" if high is not None and rate > high else "may pay: within the model's range"
