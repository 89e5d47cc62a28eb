"""Which window at which load?"""

from __future__ import annotations

from specdec import plots
from specdec.analysis.load_sentences import shown
from specdec.analysis.load_verdict import LoadWindow, WindowsOverLoad
from specdec.plots import Picture
from specdec.report.content import Cell, Section, Table, cell, columns
from specdec.report.numbers import milliseconds, percent, sentence, times
from specdec.report.parts.view import View
from specdec.text import listed


def section(view: View) -> Section | None:
    """Advice on the window over load; None where it cannot be given."""
    loads = view.verdict.loads
    if loads is None or not loads.windows:
        return None
    text = (
        "All measured windows and loads of a draft give one model (docs/load.md), which predicts every load"
        " between the lowest and the highest. The range is that of resampled prompts and of every shape"
        " that the cost of a step may have over window and load. It widens with the distance from what was"
        ' measured. Sure is the share of these in which the recommended window, or "off", is within 3% of'
        " the best, under the shape that speaks most against it."
    )
    return Section(
        "load-windows",
        "Which window at which load?",
        (text,),
        points=tuple(f"{_name(advice)}: {sentence(advice.says)}" for advice in loads.windows),
        pictures=tuple(_picture(view, advice) for advice in loads.windows),
        tables=tuple(_table(view, advice) for advice in loads.windows),
    )


def _name(advice: WindowsOverLoad) -> str:
    windows = listed([str(window) for window in advice.measured_windows])
    several = "s" if len(advice.measured_windows) > 1 else ""
    return f"{advice.draft or 'draft'}, measured at window{several} {windows}"


def _picture(view: View, advice: WindowsOverLoad) -> Picture:
    place = view.place(advice.variants[0])
    points = tuple(plots.Point(row.load, row.speedup, (row.low, row.high)) for row in advice.rows)
    return plots.lines(
        f"load-windows-{place}",
        f"Predicted speed-up of the best window over load, 5% to 95%: {advice.draft or 'draft'}",
        plots.Axis("requests in flight", log=True, zero=False),
        plots.Axis("times as fast as the baseline", zero=False),
        [plots.Series("best window", place, points)],
        limits=[plots.Limit("as fast as the baseline", 1.0)],
    )


def _table(view: View, advice: WindowsOverLoad) -> Table:
    heads = columns(
        ">Requests in flight",
        ">TPOT when off",
        ">Window",
        ">Predicted speed-up",
        ">5% to 95%",
        ">Sure",
        "Load measured",
    )
    variants = (view.verdict.baselines[0], *advice.variants)
    lines = sorted({line for load in advice.fitted for line in view.trace.at_load(load, None, *variants)})
    rows = tuple(_row(view, advice, row, lines) for row in advice.rows)
    return Table(f"Window by load: {advice.draft or 'draft'}", heads, rows)


def _row(view: View, advice: WindowsOverLoad, row: LoadWindow, lines: list[int]) -> tuple[Cell, ...]:
    key = f"load_window/{'+'.join(advice.variants)}/{shown(row.load)}"
    how = "model of all measured windows and loads, on the mix of test cases"
    speedup = view.trace.number(
        f"{key}/speedup", row.speedup, "ratio", times(row.speedup), f"{how}: best window", lines
    )
    tpot = view.trace.number(
        f"{key}/tpot", row.baseline_tpot, "s", milliseconds(row.baseline_tpot), f"{how}: plain", lines
    )
    sure = view.trace.number(
        f"{key}/sure", row.confidence, "share", percent(row.confidence), f"{how}: share of draws", lines
    )
    return (
        cell(shown(row.load)),
        cell(tpot),
        cell("off" if row.window is None else str(row.window)),
        cell(speedup),
        cell(f"{row.low:.2f} to {row.high:.2f}"),
        cell(sure),
        cell("yes" if row.measured else "", tone="quiet"),
    )
