"""Every metric that a request yields, with its percentiles: a metric of ``specdec.metrics`` appears here by
being listed there.
"""

from __future__ import annotations

import numpy as np

from specdec.metrics import ALL
from specdec.metrics.definition import Metric
from specdec.report.content import Cell, Section, Table, cell, columns
from specdec.report.numbers import Number, count, decimals, duration
from specdec.report.parts.view import View

PERCENTILES = (50, 90, 95, 99)


def percentiles(view: View) -> Section | None:
    """Percentiles over all requests of each variant, opened on demand."""
    rows = [row for metric in ALL for variant in view.variants if (row := _row(view, metric, variant))]
    if not rows:
        return None
    text = (
        "Over all measured requests of a variant, test cases together. A percentile needs enough requests"
        " beyond it: p99 of fewer than a hundred is nearly the largest value."
    )
    heads = columns(
        "Metric", "Variant", ">Requests", *(f">p{percent}" for percent in PERCENTILES), "~Formula"
    )
    table = Table("Percentiles over requests", heads, tuple(rows))
    return Section("metrics", "Every metric", (text,), tables=(table,), folded=True)


def _row(view: View, metric: Metric, variant: str) -> tuple[Cell, ...] | None:
    lines = view.trace.measured(None, variant)
    samples = [
        (line, value) for line in lines if (value := metric.of(view.run.records[line - 1])) is not None
    ]
    if not samples:
        return None
    own = [line for line, _ in samples]
    key = f"every/{metric.name}/{variant}"
    values = np.quantile([value for _, value in samples], [percent / 100 for percent in PERCENTILES])
    requests = view.trace.number(
        f"{key}/requests", len(own), "count", count(len(own)), f"requests that yield {metric.symbol}", own
    )
    return (
        cell(metric.symbol),
        cell(variant),
        cell(requests),
        *(
            cell(_number(view, metric, f"{key}/p{percent}", float(value), percent, own))
            for percent, value in zip(PERCENTILES, values, strict=True)
        ),
        cell(metric.formula),
    )


def _number(view: View, metric: Metric, key: str, value: float, percent: int, lines: list[int]) -> Number:
    seconds = metric.unit == "Seconds"
    how = f"p{percent} over {len(lines)} requests of {metric.formula}"
    shown = duration(value) if seconds else decimals(value)
    return view.trace.number(key, value, "s" if seconds else metric.unit.lower(), shown, how, lines)
