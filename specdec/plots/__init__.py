"""Pictures as small SVG elements, drawn here: no library is loaded, and a picture costs a millisecond.

Each function takes plain numbers, in the unit its axis names, and returns a ``Picture``. It computes no
result. A report shows a picture by putting it into ``Section.pictures``; in other HTML, write
``picture.panels`` as they are. A variant is given by its place (the baseline is 0), which chooses its colour
and its mark.

    from specdec import plots

    plots.lines(                                   # a line over load, with intervals and an objective
        "load-tpot", "TPOT by load, milliseconds",
        plots.Axis("requests in flight", log=True), plots.Axis("milliseconds per token"),
        [plots.Series("baseline", 0, (plots.Point(1, 20.1, (19.8, 20.5)), plots.Point(2, 22.0)))],
        limits=[plots.Limit("objective", 50)],
    )
    plots.frontier(...)                            # the same, points labelled: what a dollar or a user gets
    plots.bars("cost", "Cost", "US dollars", [plots.Bar("json", 0, 1.2, (1.1, 1.3))], ["baseline"])
    plots.speed_ups(...)                           # ratios with intervals against 1, one row per test case
    plots.dots_by_case(...)                        # every request and the medians, one row per test case
    plots.shaded(...)                              # a table of shares
    plots.step_histograms(...), plots.window_curves(...)   # small panels side by side
"""

from specdec.plots.rows import Bar, Dots, Interval, Row, bars, dots_by_case, shaded, speed_ups
from specdec.plots.small import Curve, Histogram, step_histograms, window_curves
from specdec.plots.svg import Picture
from specdec.plots.xy import Axis, Limit, Point, Series, frontier, lines

__all__ = [
    "Axis",
    "Bar",
    "Curve",
    "Dots",
    "Histogram",
    "Interval",
    "Limit",
    "Picture",
    "Point",
    "Row",
    "Series",
    "bars",
    "dots_by_case",
    "frontier",
    "lines",
    "shaded",
    "speed_ups",
    "step_histograms",
    "window_curves",
]
