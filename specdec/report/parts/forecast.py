"""Could it be foreseen? The forecast from the baseline's texts beside the measurement."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.forecast.check import Checked, read
from specdec.report.content import Cell, Section, Table, cell, columns
from specdec.report.parts.view import View


def checked(view: View) -> Section | None:
    """The comparison; None where no forecast was made."""
    rows = read(view.run.folder)
    if not rows:
        return None
    equal, compared = sum(row.equal for row in rows), sum(row.compared for row in rows)
    left_out = sum(row.left_out for row in rows)
    heads = columns(
        "Test case",
        "Variant",
        ">Window",
        ">Tokens per step, forecast",
        ">Measured",
        ">Requests equal",
        ">TPOT, forecast",
        ">Measured",
    )
    return Section(
        key="forecast",
        title="What the forecast said",
        paragraphs=(
            (
                "From the baseline's records alone, before any other was read, the tokens per step of every"
                f" other variant were forecast, with one request in flight. In {equal} of {compared} requests"
                " they came out equal." + (f" {left_out} could not be replayed." if left_out else "")
            ),
            (
                "TPOT is a band from published costs of a step on accelerators. On another machine it may"
                " miss; one measured step replaces it."
            ),
        ),
        tables=(Table("Forecast against measured", heads, tuple(_row(row) for row in rows)), *_others(rows)),
    )


def _others(rows: Sequence[Checked]) -> tuple[Table, ...]:
    """Every request that differs from its forecast, with the reason; no table if none does."""
    found = tuple(
        (
            cell(row.test_case),
            cell(one.prompt),
            cell(row.variant),
            cell(f"{one.forecast:.3f}"),
            cell(f"{one.measured:.3f}"),
            cell(one.why),
        )
        for row in rows
        for one in row.differences
    )
    heads = columns("Test case", "Prompt", "Variant", ">Forecast", ">Measured", ":Why")
    return (Table("Requests that came out otherwise", heads, found),) if found else ()


def _row(row: Checked) -> tuple[Cell, ...]:
    low, high = 1e3 * row.tpot_low, 1e3 * row.tpot_high
    return (
        cell(row.test_case),
        cell(row.variant),
        cell(str(row.window)),
        cell(f"{row.forecast:.2f}"),
        cell(f"{row.measured:.2f}"),
        cell(f"{row.equal} of {row.compared}"),
        cell(f"{low:.1f} to {high:.1f} ms"),
        cell(f"{1e3 * row.tpot:.1f} ms"),
    )
