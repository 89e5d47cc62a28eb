"""The pictures of a report. Each takes plain numbers and gives a picture with its meaning in words; none
computes a result.
"""

# pyright: reportUnknownMemberType=false
# matplotlib ships types whose **kwargs have none.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec.report.svg import BAD, GOOD, INK, MUTED, Picture, colour, draw, marker

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW = 0.36
"""Inches of height per row of a picture with one row per test case."""


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
    """A speed-up with the ends of its interval, if it has one; above 1 is faster."""

    label: str
    variant: int
    value: float
    ends: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often a step gave 1, 2, 3, ... tokens; shares of all steps."""

    label: str
    shares: tuple[float, ...]
    mean: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Predicted TPOT by window with its range, what was measured, and the baseline, milliseconds."""

    label: str
    windows: tuple[int, ...]
    predicted: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    measured: tuple[tuple[int, float], ...]
    baseline: float
    recommended: int | None


def dots_by_case(name: str, title: str, unit: str, rows: Sequence[Row], variants: Sequence[str]) -> Picture:
    """One row per test case: each request a faint mark, each variant's median a full one."""

    def paint(panels: Sequence[Axes]) -> None:
        (axes,) = panels
        count = len(variants)
        for place, row in enumerate(rows):
            for dots in row.dots:
                y = place + (dots.variant - (count - 1) / 2) * 0.6 / count
                shade = colour(dots.variant)
                axes.plot(
                    dots.values,
                    [y] * len(dots.values),
                    ls="",
                    marker=marker(dots.variant),
                    ms=4,
                    mew=0,
                    color=shade,
                    alpha=0.3,
                )
                label = variants[dots.variant]
                axes.plot(
                    [dots.middle],
                    [y],
                    ls="",
                    marker=marker(dots.variant),
                    ms=6.5,
                    mew=0,
                    color=shade,
                    label=label,
                )
        _rows(axes, [row.label for row in rows])
        axes.set_xlim(left=0)
        axes.set_xlabel(unit)

    alt = f"{title}, {unit}, medians. " + " ".join(
        f"{row.label}: "
        + ", ".join(f"{variants[dots.variant]} {_figure(dots.middle)}" for dots in row.dots)
        + "."
        for row in rows
    )
    return draw(name, title, alt, height=_height(len(rows)), paint=paint)


def speed_ups(
    name: str,
    title: str,
    intervals: Sequence[Interval],
    variants: Sequence[str],
    labels: Sequence[str],
    *,
    unit: str = "times as fast as the baseline",
) -> Picture:
    """One row per test case: the paired speed-up with its interval, against the line of no difference."""
    several = len({interval.variant for interval in intervals}) > 1

    def paint(panels: Sequence[Axes]) -> None:
        (axes,) = panels
        others = sorted({interval.variant for interval in intervals})
        for interval in intervals:
            shift = (others.index(interval.variant) - (len(others) - 1) / 2) * 0.6 / len(others)
            y = list(labels).index(interval.label) + shift
            low, high = interval.ends or (interval.value, interval.value)
            verdict = MUTED if interval.ends is None else GOOD if low > 1 else BAD if high < 1 else MUTED
            axes.plot([low, high], [y, y], color=verdict, lw=2.2, solid_capstyle="butt")
            label = variants[interval.variant] if several else None
            fill = verdict if interval.ends else "none"
            axes.plot(
                [interval.value],
                [y],
                ls="",
                marker=marker(interval.variant),
                ms=6,
                mew=1,
                color=verdict,
                mfc=fill,
                label=label,
            )
        axes.axvline(1, color=INK, lw=1)
        _rows(axes, labels)
        reach = [bound for interval in intervals for bound in interval.ends or (interval.value,)]
        axes.set_xlim(min(0.9, *reach) * 0.95, max(1.1, *reach) * 1.05)
        axes.set_xlabel(unit)

    alt = f"{title}. " + " ".join(
        f"{interval.label}{f', {variants[interval.variant]}' if several else ''}: {interval.value:.2f}, "
        + (
            f"interval {interval.ends[0]:.2f} to {interval.ends[1]:.2f}."
            if interval.ends
            else "too few prompts for an interval."
        )
        for interval in intervals
    )
    return draw(name, title, alt, height=_height(len(labels)), paint=paint, legend=several)


def step_histograms(name: str, title: str, histograms: Sequence[Histogram], variant: int) -> Picture:
    """Small panels, one per test case: the share of steps that gave so many tokens."""
    longest = max(len(histogram.shares) for histogram in histograms)

    def paint(panels: Sequence[Axes]) -> None:
        for axes, histogram in zip(panels, histograms, strict=False):
            axes.bar(
                range(1, len(histogram.shares) + 1),
                [100 * share for share in histogram.shares],
                color=colour(variant),
                width=0.75,
            )
            axes.set_title(f"{histogram.label}: {histogram.mean:.2f}")
            axes.grid(visible=False, axis="x")
            axes.set_xlim(0.4, longest + 0.6)
            axes.set_xticks(_ticks(longest))
            axes.set_ylim(0, 100)
            axes.set_yticks([0, 50, 100], ["0%", "50%", "100%"])
            axes.tick_params(axis="y", labelcolor=MUTED)
        _blank(panels, len(histograms))

    alt = (
        f"{title}. Mean tokens per step: "
        + ", ".join(f"{histogram.label} {histogram.mean:.2f}" for histogram in histograms)
        + "."
    )
    lines = math.ceil(len(histograms) / 2)
    return draw(
        name, title, alt, height=0.25 + 1.15 * lines, paint=paint, rows=lines, columns=2, legend=False
    )


def acceptance(
    name: str, title: str, rows: Sequence[tuple[str, Sequence[float | None]]], variant: int
) -> Picture:
    """A table of shaded cells: test cases down, positions of the window across, the chance that a proposal
    there is kept.
    """
    longest = max(len(values) for _, values in rows)

    def paint(panels: Sequence[Axes]) -> None:
        (axes,) = panels
        for place, (_, values) in enumerate(rows):
            for position, value in enumerate(values):
                if value is None:
                    continue
                axes.barh(
                    place,
                    0.94,
                    left=position + 0.53,
                    height=0.86,
                    color=colour(variant),
                    alpha=0.06 + 0.44 * value,
                    lw=0,
                )
                if longest <= 8:
                    axes.text(position + 1, place, f"{100 * value:.0f}", ha="center", va="center", fontsize=9)
        _rows(axes, [label for label, _ in rows])
        axes.grid(visible=False)
        axes.set_xlim(0.5, longest + 0.5)
        axes.set_xticks(_ticks(longest))
        axes.set_xlabel("position in the window (cells: % kept)")

    alt = f"{title}. " + " ".join(
        f"{label}: {', '.join('too few' if value is None else f'{100 * value:.0f}%' for value in values)}."
        for label, values in rows
    )
    return draw(name, title, alt, height=_height(len(rows)), paint=paint, legend=False)


def window_curves(name: str, title: str, curves: Sequence[Curve], variant: int) -> Picture:
    """Small panels, one per test case: predicted TPOT by window, the measured points, the baseline.

    All have one scale, cut at twice the slowest baseline: how much worse than that does not matter.
    """
    points = [
        value for curve in curves for value in (*curve.predicted, *(tpot for _, tpot in curve.measured))
    ]
    top = min(
        1.1 * max(*points, *(curve.baseline for curve in curves)), 2 * max(curve.baseline for curve in curves)
    )

    def paint(panels: Sequence[Axes]) -> None:
        for axes, curve in zip(panels, curves, strict=False):
            axes.axhline(curve.baseline, color=colour(0), lw=1.4, ls=(0, (4, 2)), label="baseline")
            axes.fill_between(curve.windows, curve.low, curve.high, color=colour(variant), alpha=0.2, lw=0)
            axes.plot(curve.windows, curve.predicted, color=colour(variant), lw=1.6, label="predicted")
            for window, value in curve.measured:
                axes.plot(
                    [window],
                    [value],
                    ls="",
                    marker=marker(variant),
                    ms=6.5,
                    mew=0,
                    color=colour(variant),
                    label="measured",
                )
            if curve.recommended is not None and curve.recommended in curve.windows:
                best = curve.predicted[curve.windows.index(curve.recommended)]
                axes.plot(
                    [curve.recommended],
                    [best],
                    ls="",
                    marker="o",
                    ms=10,
                    mfc="none",
                    mew=1.4,
                    color=GOOD,
                    label="recommended",
                )
            advice = f"window {curve.recommended}" if curve.recommended is not None else "off"
            axes.set_title(f"{curve.label}: {advice}")
            axes.set_ylim(0, top)
            axes.set_xlim(0.4, max(curve.windows) + 0.6)
            axes.set_xticks(_ticks(max(curve.windows)))
            axes.tick_params(axis="y", labelcolor=MUTED)
        _blank(panels, len(curves))

    alt = f"{title}. " + " ".join(
        f"{curve.label}: baseline {_figure(curve.baseline)}, measured "
        + ", ".join(f"{_figure(value)} at window {window}" for window, value in curve.measured)
        + f", best predicted {_figure(min(curve.predicted))} at window"
        f" {curve.windows[curve.predicted.index(min(curve.predicted))]}; "
        + (
            f"recommended window {curve.recommended}."
            if curve.recommended is not None
            else "recommended: off."
        )
        for curve in curves
    )
    lines = math.ceil(len(curves) / 2)
    return draw(name, title, alt, height=0.55 + 1.25 * lines, paint=paint, rows=lines, columns=2)


def _height(rows: int) -> float:
    return 0.95 + ROW * rows


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def _ticks(longest: int) -> list[int]:
    return list(range(1, longest + 1, max(1, math.ceil(longest / 8))))


def _blank(panels: Sequence[Axes], used: int) -> None:
    for axes in panels[used:]:
        axes.set_axis_off()


def _figure(value: float) -> str:
    return f"{value:.3g}"
