"""A rectangle with axes: what every plot is drawn into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from specdec.plots.scale import Scale, shown
from specdec.plots.svg import FONT, INK, MUTED, RULE, line, text, width_of

Label = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Panel:
    """Where a plot is, and how values become places in it.

    Attributes:
        root: the element it is drawn into.
        left, right, top, bottom: edges of the plotted area. The scales keep a mark's width away from them,
            so that no mark is cut.
        x, y: scales; ``y`` is None where rows stand under each other.
    """

    root: Element
    left: float
    right: float
    top: float
    bottom: float
    x: Scale
    y: Scale | None = None

    def x_axis(self, ticks: Sequence[float], label: str = "", *, grid: bool = True) -> None:
        """Labels below the plot, and lines from them upwards. A label at the right edge moves left to fit."""
        room = float(self.root.get("viewBox", "").split()[2])
        for tick in ticks:
            place, label_of_tick = self.x(tick), shown(tick)
            if grid:
                line(self.root, [(place, self.top), (place, self.bottom)], RULE, stroke_width=0.8)
            middle = min(place, room - width_of(label_of_tick) / 2)
            text(self.root, middle, self.bottom + FONT + 2, label_of_tick, text_anchor="middle", fill=MUTED)
        line(self.root, [(self.left, self.bottom), (self.right, self.bottom)], RULE)
        if label:
            text(
                self.root,
                (self.left + self.right) / 2,
                self.bottom + 2 * FONT + 6,
                label,
                text_anchor="middle",
                fill=MUTED,
            )

    def y_axis(self, ticks: Sequence[float], label: Label = shown) -> None:
        """Labels left of the plot, and lines from them across it."""
        assert self.y is not None
        for tick in ticks:
            place = self.y(tick)
            line(self.root, [(self.left, place), (self.right, place)], RULE, stroke_width=0.8)
            text(self.root, self.left - 5, place + 4, label(tick), text_anchor="end", fill=MUTED)

    def upright(self, value: float, stroke: str = INK) -> None:
        """A line at one value of x."""
        line(self.root, [(self.x(value), self.top), (self.x(value), self.bottom)], stroke, stroke_width=1.2)

    def level(self, value: float, stroke: str) -> None:
        """A dashed line at one value of y."""
        assert self.y is not None
        ends = [(self.left, self.y(value)), (self.right, self.y(value))]
        line(self.root, ends, stroke, stroke_width=1.6, stroke_dasharray="4 3")

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point."""
        assert self.y is not None
        return self.x(x), self.y(y)


def room_for(labels: Sequence[str], most: float) -> float:
    """How much room labels beside an axis need, at most ``most``."""
    return min(most, 8 + max((width_of(label) for label in labels), default=0))
