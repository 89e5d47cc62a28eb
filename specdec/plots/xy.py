"""Pictures with two measured axes: a line over load with intervals, and a frontier of two goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec.plots.panel import Panel, room_for
from specdec.plots.scale import Scale, shown, spanning
from specdec.plots.svg import (
    FONT,
    MUTED,
    WIDTH,
    Key,
    Picture,
    canvas,
    colour,
    figure,
    finish,
    legend,
    line,
    marker,
    path,
    shortened,
    text,
    width_of,
)

HEIGHT = 210.0
PAD = 8.0
LABEL = 120.0
"""The most room that the label of a point gets."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measured point.

    Attributes:
        x, y: its values.
        ends: of the interval of ``y``, if it has one.
        label: written beside it, where the axes do not say what it is.
        across: of the interval of ``x``, if it has one.
    """

    x: float
    y: float
    ends: tuple[float, float] | None = None
    label: str = ""
    across: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one variant: its name, its place (the baseline's is 0), and the points in order of x, joined
    by a line unless ``joined`` says not.
    """

    label: str
    variant: int
    points: tuple[Point, ...]
    joined: bool = True


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis measures, with the unit.

    Attributes:
        label: in words.
        log: whether equal ratios are equally far apart; good for loads that double.
        zero: whether it starts at 0.
    """

    label: str
    log: bool = False
    zero: bool = True


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that ``y`` is held against, e.g. an objective: drawn as a dashed line."""

    label: str
    y: float


def lines(
    name: str, title: str, x: Axis, y: Axis, series: Sequence[Series], *, limits: Sequence[Limit] = ()
) -> Picture:
    """Lines over ``x``, joined in order, each point with its interval."""
    return _draw(name, title, x, y, series, limits, steps=True)


def frontier(
    name: str, title: str, x: Axis, y: Axis, series: Sequence[Series], *, limits: Sequence[Limit] = ()
) -> Picture:
    """Two goals against each other: every point a choice, labelled, joined in the order given."""
    return _draw(name, title, x, y, series, limits, steps=False)


def _draw(
    name: str,
    title: str,
    x: Axis,
    y: Axis,
    series: Sequence[Series],
    limits: Sequence[Limit],
    *,
    steps: bool,
) -> Picture:
    points = [point for row in series for point in row.points]
    heights = [value for point in points for value in (point.y, *(point.ends or ()))]
    heights += [limit.y for limit in limits]
    root = canvas(0)
    keys = [Key("odsyv"[row.variant % 5], colour(row.variant), row.label) for row in series]
    keys += [Key("dashed", MUTED, limit.label) for limit in limits]
    top = legend(root, keys, 0)
    text(root, 0, top + FONT, y.label, fill=MUTED)
    top += FONT + 8
    bottom = top + HEIGHT
    up = spanning(heights, bottom - (0 if y.zero and not y.log else PAD), top + PAD, zero=y.zero, log=y.log)
    left = room_for([shown(tick) for tick in up.ticks()], 80)
    room = room_for([point.label for point in points if point.label] or [""], LABEL + 8) if not steps else 0
    across = spanning(
        [point.x for point in points],
        left + PAD,
        WIDTH - PAD - room,
        zero=x.zero and not steps,
        log=x.log,
    )
    root.set("viewBox", f"0 0 {figure(WIDTH)} {figure(bottom + 2 * FONT + 12)}")
    panel = Panel(root, left, WIDTH - 1, top, bottom, across, up)
    panel.y_axis(up.ticks())
    measured = [point for row in series if row.joined for point in row.points]
    panel.x_axis(_ticks(across, measured) if steps else across.ticks(), x.label, grid=not steps)
    for limit in limits:
        panel.level(limit.y, MUTED)
    for row in series:
        _series(panel, row)
    alt = f"{title}. {y.label} over {x.label}. " + " ".join(
        f"{row.label}: " + ", ".join(_says(point) for point in row.points) + "." for row in series
    )
    alt += "".join(f" {limit.label}: {limit.y:.3g}." for limit in limits)
    return Picture(name, title, (finish(root, name, title, alt),), alt)


def _series(panel: Panel, row: Series) -> None:
    shade = colour(row.variant)
    if row.joined:
        line(panel.root, [panel.at(point.x, point.y) for point in row.points], shade, stroke_width=1.6)
    spans: list[str] = []
    for point in row.points:
        if point.ends:
            (x, low), (_, high) = (panel.at(point.x, end) for end in point.ends)
            spans.append(f"M{figure(x)} {figure(low)}V{figure(high)}M{figure(x - 4)} {figure(low)}h8")
            spans.append(f"M{figure(x - 4)} {figure(high)}h8")
        if point.across:
            (low, y), (high, _) = (panel.at(end, point.y) for end in point.across)
            spans.append(f"M{figure(low)} {figure(y)}H{figure(high)}M{figure(low)} {figure(y - 4)}v8")
            spans.append(f"M{figure(high)} {figure(y - 4)}v8")
    if spans:
        path(panel.root, "".join(spans), fill="none", stroke=shade, stroke_width=1.6)
    if row.points:
        marks = (marker(row.variant, *panel.at(point.x, point.y)) for point in row.points)
        path(panel.root, "".join(marks), fill=shade)
    for point in row.points:
        if point.label:
            x, y = panel.at(point.x, point.y)
            text(panel.root, x + 8, y + 4, shortened(point.label, LABEL), fill=MUTED)


def _ticks(scale: Scale, points: Sequence[Point]) -> list[float]:
    """The values that were measured, where they are few and lie apart; else round ones."""
    values = sorted({point.x for point in points})
    places = [scale(value) for value in values]
    rooms = [width_of(shown(value)) + 6 for value in values]
    apart = all(
        after - before >= (first + second) / 2
        for before, after, first, second in zip(places, places[1:], rooms, rooms[1:], strict=False)
    )
    return values if apart else scale.ticks()


def _says(point: Point) -> str:
    name = f"{point.label} " if point.label else ""
    span = f" ({point.ends[0]:.3g} to {point.ends[1]:.3g})" if point.ends else ""
    reach = f" ({point.across[0]:.4g} to {point.across[1]:.4g})" if point.across else ""
    return f"{name}{point.y:.3g}{span} at {point.x:.4g}{reach}"
