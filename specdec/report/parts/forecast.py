"""Was it to be foreseen? The forecast from the baseline's texts beside what was measured."""

from __future__ import annotations

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
                "From the baseline's texts alone the tokens per step of every other variant were forecast,"
                f" with one request in flight. In {equal} of {compared} requests they came out equal."
                + (f" {left_out} could not be replayed." if left_out else "")
            ),
            (
                "TPOT is a band from published costs of a step on accelerators. On another machine it may"
                " miss; one measured step replaces it."
            ),
        ),
        tables=(Table("Forecast against measured", heads, tuple(_row(row) for row in rows)),),
    )


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
