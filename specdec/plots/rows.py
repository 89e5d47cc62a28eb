"""Pictures with one row per test case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from specdec.plots.panel import Panel, room_for
from specdec.plots.scale import Scale, spanning, whole
from specdec.plots.svg import (
    BAD,
    FONT,
    GOOD,
    INK,
    MUTED,
    WIDTH,
    Key,
    Picture,
    add,
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
)

ROW = 26.0
"""Height of a row."""

PAD = 7.0
"""Kept free at both ends of an axis, so that no mark is cut."""


@dataclass(frozen=True, slots=True)
class Dots:
    """One variant in one row: every value, and the middle one."""

    variant: int
    values: tuple[float, ...]
    middle: float


@dataclass(frozen=True, slots=True)
class Row:
    """One test case with its variants."""

    label: str
    dots: tuple[Dots, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """A speed-up with the ends of its interval, if it has one; above 1 is faster.

    Attributes:
        label: the row's name.
        variant: place of the variant, for its mark.
        value: the best estimate.
        ends: of the interval, or None without one.
        says: the decision in a word, written beside it.
        quiet: whether it is drawn without good or bad, since no decision rests on it.
    """

    label: str
    variant: int
    value: float
    ends: tuple[float, float] | None
    says: str = ""
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its row's name, the place of its variant, its length, and the ends of its interval if any."""

    label: str
    variant: int
    value: float
    ends: tuple[float, float] | None = None


def dots_by_case(name: str, title: str, unit: str, rows: Sequence[Row], variants: Sequence[str]) -> Picture:
    """One row per test case: each request a faint stroke, each variant's median a full mark."""
    shown = sorted({dots.variant for row in rows for dots in row.dots})
    keys = [Key("odsyv"[place % 5], colour(place), variants[place]) for place in shown]
    values = [value for row in rows for dots in row.dots for value in (*dots.values, dots.middle)]
    panel = _rows([row.label for row in rows], keys, values, unit, zero=True)
    faint: dict[int, list[str]] = {place: [] for place in shown}
    full: dict[int, list[str]] = {place: [] for place in shown}
    for place, row in enumerate(rows):
        for dots in row.dots:
            y = _middle(panel, place) + _shift(shown.index(dots.variant), len(shown))
            # Strokes closer than half a unit cannot be told apart, so thousands of requests stay small.
            columns = sorted({round(2 * panel.x(value)) / 2 for value in dots.values})
            faint[dots.variant] += [f"M{figure(x)} {figure(y - 3)}v6" for x in columns]
            full[dots.variant].append(marker(dots.variant, panel.x(dots.middle), y))
    for variant in shown:
        if faint[variant]:
            stroke = colour(variant)
            path(panel.root, "".join(faint[variant]), fill="none", stroke=stroke, opacity="0.45")
        path(panel.root, "".join(full[variant]), fill=colour(variant))
    alt = f"{title}, {unit}, medians. " + " ".join(
        f"{row.label}: " + ", ".join(f"{variants[dots.variant]} {dots.middle:.3g}" for dots in row.dots) + "."
        for row in rows
    )
    return Picture(name, title, (finish(panel.root, name, title, alt),), alt)


def speed_ups(
    name: str,
    title: str,
    intervals: Sequence[Interval],
    variants: Sequence[str],
    labels: Sequence[str],
    *,
    unit: str = "times as fast as the baseline",
) -> Picture:
    """One row per test case: the paired speed-up with its interval, against the line of no difference.

    Colour, side of the line and the word at the end of the row say the same. The scale is logarithmic: half
    and double are equally far from 1.
    """
    others = sorted({interval.variant for interval in intervals})
    several = len(others) > 1
    keys = [Key("odsyv"[place % 5], MUTED, variants[place]) for place in others] if several else []
    reach = [bound for interval in intervals for bound in (interval.value, *(interval.ends or ()))]
    notes = [_note(interval) for interval in intervals]
    panel = _rows(labels, keys, [0.9, 1.1, *reach], unit, log=True, notes=notes, tall=len(others))
    panel.upright(1)
    for interval, note in zip(intervals, notes, strict=True):
        row = list(labels).index(interval.label)
        y = _middle(panel, row, len(others)) + _shift(others.index(interval.variant), len(others), FONT + 3)
        low, high = interval.ends or (interval.value, interval.value)
        tone = (
            MUTED
            if interval.quiet or interval.ends is None
            else GOOD
            if low > 1
            else BAD
            if high < 1
            else MUTED
        )
        x, first, last = panel.x(interval.value), panel.x(low), panel.x(high)
        if interval.ends:
            path(
                panel.root,
                f"M{figure(first)} {figure(y)}H{figure(last)}M{figure(first)} {figure(y - 4)}v8"
                f"M{figure(last)} {figure(y - 4)}v8",
                fill="none",
                stroke=tone,
                stroke_width=2,
            )
        fill = tone if interval.ends else "none"
        path(panel.root, marker(interval.variant, x, y), fill=fill, stroke=tone, stroke_width=1.4)
        text(panel.root, panel.right + 8, y + 4, note, fill=tone)
    alt = f"{title}. " + " ".join(
        f"{interval.label}{f', {variants[interval.variant]}' if several else ''}: {interval.value:.2f}, "
        + (
            f"interval {interval.ends[0]:.2f} to {interval.ends[1]:.2f}"
            if interval.ends
            else "too few prompts for an interval"
        )
        + (f", {interval.says}." if interval.says else ".")
        for interval in intervals
    )
    return Picture(name, title, (finish(panel.root, name, title, alt),), alt)


def bars(name: str, title: str, unit: str, rows: Sequence[Bar], variants: Sequence[str]) -> Picture:
    """Bars from zero, one group per row, with intervals where they have any."""
    shown = sorted({row.variant for row in rows})
    labels = list(dict.fromkeys(row.label for row in rows))
    keys = [Key("s", colour(place), variants[place]) for place in shown]
    reach = [bound for row in rows for bound in (row.value, *(row.ends or ()))]
    panel = _rows(labels, keys if len(shown) > 1 else [], reach, unit, zero=True)
    thick = (ROW - 8) / len(shown)
    for row in rows:
        y = _middle(panel, labels.index(row.label)) + _shift(shown.index(row.variant), len(shown), thick)
        ends = sorted((panel.x(0), panel.x(row.value)))
        add(
            panel.root,
            "rect",
            x=ends[0],
            y=y - thick / 2,
            width=ends[1] - ends[0],
            height=thick,
            fill=colour(row.variant),
        )
        if row.ends:
            line(panel.root, [(panel.x(end), y) for end in row.ends], INK, stroke_width=2)
    alt = f"{title}, {unit}. " + " ".join(
        f"{row.label}, {variants[row.variant]}: {row.value:.3g}"
        + (f" ({row.ends[0]:.3g} to {row.ends[1]:.3g})." if row.ends else ".")
        for row in rows
    )
    return Picture(name, title, (finish(panel.root, name, title, alt),), alt)


def shaded(
    name: str, title: str, rows: Sequence[tuple[str, Sequence[float | None]]], variant: int
) -> Picture:
    """A table of shaded cells: test cases down, positions of the window across, the share of proposals there
    that is kept.
    """
    longest = max(len(values) for _, values in rows)
    panel = _rows([label for label, _ in rows], [], [], "position in the window (cells: % kept)")
    wide = (panel.right - panel.left) / longest
    for place, (_, values) in enumerate(rows):
        y = _middle(panel, place)
        for position, value in enumerate(values):
            if value is None:
                continue
            x = panel.left + position * wide
            add(
                panel.root,
                "rect",
                x=x + 1,
                y=y - ROW / 2 + 1,
                width=wide - 2,
                height=ROW - 2,
                fill=colour(variant),
                fill_opacity=f"{0.06 + 0.44 * value:.2f}",
            )
            if longest <= 8:
                text(panel.root, x + wide / 2, y + 4, f"{100 * value:.0f}", text_anchor="middle")
    across = Scale(0.5, longest + 0.5, panel.left, panel.right)
    Panel(panel.root, panel.left, panel.right, panel.top, panel.bottom, across).x_axis(
        whole(longest), grid=False
    )
    alt = f"{title}. " + " ".join(
        f"{label}: {', '.join('too few' if value is None else f'{100 * value:.0f}%' for value in values)}."
        for label, values in rows
    )
    return Picture(name, title, (finish(panel.root, name, title, alt),), alt)


def _rows(
    labels: Sequence[str],
    keys: Sequence[Key],
    values: Sequence[float],
    unit: str,
    *,
    zero: bool = False,
    log: bool = False,
    notes: Sequence[str] = (),
    tall: int = 1,
) -> Panel:
    """An empty picture with a row per label; without ``values`` it has no scale to draw."""
    room = room_for(labels, 0.36 * WIDTH)
    right = WIDTH - (room_for(notes, 0.4 * WIDTH) if notes else 0) - 1
    root: Element = canvas(0)
    top = legend(root, keys, 0) + 4
    bottom = top + _height(tall) * len(labels)
    root.set("viewBox", f"0 0 {figure(WIDTH)} {figure(bottom + 2 * FONT + 12)}")
    x = spanning(values, room + PAD, right - PAD, zero=zero, log=log)
    panel = Panel(root, room, right, top, bottom, x)
    for place, label in enumerate(labels):
        y = _middle(panel, place, tall) + 4
        text(root, room - 8, y, shortened(label, room - 8), text_anchor="end")
    panel.x_axis(x.ticks() if values else (), unit)
    return panel


def _height(tall: int) -> float:
    return max(ROW, tall * (FONT + 3) + 8)


def _middle(panel: Panel, place: int, tall: int = 1) -> float:
    return panel.top + (place + 0.5) * _height(tall)


def _shift(index: int, count: int, apart: float | None = None) -> float:
    """How far the mark of one of several variants lies from the middle of its row."""
    return (index - (count - 1) / 2) * (apart if apart is not None else 0.6 * ROW / count)


def _note(interval: Interval) -> str:
    return f"{interval.value:.2f}x {interval.says}".rstrip()
