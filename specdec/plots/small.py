"""Small panels side by side, one per test case, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from specdec.plots.panel import Panel
from specdec.plots.scale import Scale, even, whole
from specdec.plots.svg import (
    FONT,
    GOOD,
    Key,
    Picture,
    add,
    canvas,
    colour,
    finish,
    legend_alone,
    line,
    marker,
    outline,
    path,
    shape,
    shortened,
    text,
)

WIDTH, HEIGHT = 200.0, 140.0
_LEFT, _TOP, _BOTTOM = 42.0, 22.0, 20.0


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


def step_histograms(name: str, title: str, histograms: Sequence[Histogram], variant: int) -> Picture:
    """The share of steps that gave so many tokens."""
    longest = max(len(histogram.shares) for histogram in histograms)
    panels: list[str] = []
    for place, histogram in enumerate(histograms):
        panel = _panel(f"{histogram.label}: {histogram.mean:.2f}", longest, 1.0)
        panel.y_axis((0, 0.5, 1), lambda share: f"{100 * share:.0f}%")
        panel.x_axis(whole(longest, 6), grid=False)
        for tokens, share in enumerate(histogram.shares, 1):
            left, top = panel.at(tokens - 0.37, share)
            add(
                panel.root,
                "rect",
                x=left,
                y=top,
                width=panel.x(tokens + 0.37) - left,
                height=panel.bottom - top,
                fill=colour(variant),
            )
        words = f"Mean tokens per step {histogram.mean:.2f}. " + ", ".join(
            f"{tokens}: {100 * share:.0f}%" for tokens, share in enumerate(histogram.shares, 1)
        )
        panels.append(finish(panel.root, f"{name}-{place}", histogram.label, words))
    alt = (
        f"{title}. Mean tokens per step: "
        + ", ".join(f"{histogram.label} {histogram.mean:.2f}" for histogram in histograms)
        + "."
    )
    return Picture(name, title, tuple(panels), alt)


def window_curves(name: str, title: str, curves: Sequence[Curve], variant: int) -> Picture:
    """Predicted TPOT by window, the measured points, the baseline.

    All have one scale, cut at twice the slowest baseline: how much worse than that does not matter.
    """
    points = [
        value for curve in curves for value in (*curve.predicted, *(tpot for _, tpot in curve.measured))
    ]
    slowest = max(curve.baseline for curve in curves)
    top = min(1.1 * max(*points, slowest), 2 * slowest)
    longest = max(max(curve.windows) for curve in curves)
    panels = [
        finish(_curve(curve, longest, top, variant), f"{name}-{place}", curve.label, _says(curve))
        for place, curve in enumerate(curves)
    ]
    shade = colour(variant)
    keys = [
        Key("dashed", colour(0), "baseline"),
        Key("line", shade, "predicted"),
        Key("band", shade, "range"),
        Key("odsyv"[variant % 5], shade, "measured"),
    ]
    if any(curve.recommended is not None for curve in curves):
        keys.append(Key("ring", GOOD, "recommended"))
    alt = f"{title}. " + " ".join(f"{curve.label}: {_says(curve)}" for curve in curves)
    return Picture(name, title, tuple(panels), alt, legend_alone(name, keys))


def _curve(curve: Curve, longest: int, top: float, variant: int) -> Element:
    advice = f"window {curve.recommended}" if curve.recommended is not None else "off"
    panel = _panel(f"{curve.label}: {advice}", longest, top)
    assert panel.y is not None
    panel.y_axis(even(0, top, 4))
    panel.x_axis(whole(longest, 6), grid=False)
    shade = colour(variant)
    ahead = [panel.at(window, low) for window, low in zip(curve.windows, curve.low, strict=True)]
    back = [panel.at(window, high) for window, high in zip(curve.windows, curve.high, strict=True)]
    plot = _clipped(panel)
    path(plot, outline([*ahead, *reversed(back)]) + "z", fill=shade, opacity="0.25")
    panel.level(curve.baseline, colour(0))
    predicted = [(window, tpot) for window, tpot in zip(curve.windows, curve.predicted, strict=True)]
    line(plot, [panel.at(*point) for point in predicted], shade, stroke_width=1.8)
    for window, tpot in curve.measured:
        if tpot > top:
            text(panel.root, panel.x(window), _TOP + FONT, f"{tpot:.3g} ↑", fill=shade, text_anchor="end")
        else:
            path(panel.root, marker(variant, *panel.at(window, tpot)), fill=shade)
    best = dict(predicted).get(curve.recommended) if curve.recommended is not None else None
    if curve.recommended is not None and best is not None:
        ring = shape("o", *panel.at(curve.recommended, best), 7)
        path(panel.root, ring, fill="none", stroke=GOOD, stroke_width=1.8)
    return panel.root


def _clipped(panel: Panel) -> Element:
    """A part of the picture that shows only what lies inside the plot."""
    left, top, wide, high = panel.left, _TOP, panel.right - panel.left, panel.bottom - _TOP
    box = f"{left} {top} {wide} {high}"
    return add(panel.root, "svg", x=left, y=top, width=wide, height=high, viewBox=box, role="presentation")


def _says(curve: Curve) -> str:
    best = min(curve.predicted)
    return (
        f"baseline {curve.baseline:.3g}, measured "
        + ", ".join(f"{value:.3g} at window {window}" for window, value in curve.measured)
        + f", best predicted {best:.3g} at window {curve.windows[curve.predicted.index(best)]}; "
        + (
            f"recommended window {curve.recommended}."
            if curve.recommended is not None
            else "recommended: off."
        )
    )


def _panel(title: str, longest: int, top: float) -> Panel:
    root = canvas(HEIGHT, WIDTH)
    text(root, 0, FONT, shortened(title, WIDTH), font_weight="600")
    right, bottom = WIDTH - 2, HEIGHT - _BOTTOM
    x = Scale(0.4, longest + 0.6, _LEFT, right)
    return Panel(root, _LEFT, right, _TOP, bottom, x, Scale(0, top, bottom, _TOP + 4))
