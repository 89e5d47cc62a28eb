"""SVG elements that live inside a page: built and escaped by the standard library, in the page's colours.

Lengths are in user units. A panel is scaled to the width of its place on the page, so text keeps its
proportion to the plot.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

WIDTH = 420.0
"""Of a picture with one panel. Its text stays readable where the picture is as wide as a phone."""

WIDEST = 32.0
"""Width of such a picture on a wide screen, in rem, as ``report.css`` has it."""

FONT = 12.0
"""Height of the text."""

INK, MUTED, RULE = "var(--ink,#17202a)", "var(--muted,#4d5966)", "var(--rule,#d5dbe1)"
GOOD, BAD = "var(--good,#0b6b4b)", "var(--bad,#a8321f)"
"""Colours of the page, so that one picture serves light, dark and print; the second value is for a picture
that stands alone.
"""

_VARIANTS = ("#66707a", "#0a6cb4", "#c2570c", "#96478f", "#007a5e")
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[]{}/- "), frozenset("mwMW@%&")


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot and what it shows in words.

    Attributes:
        name: short id, unique on the page.
        title: what is plotted, with the unit.
        panels: ``<svg>`` elements to put into HTML as they are. A single one takes the picture's place;
            several share it side by side.
        alt: what a person who cannot see it needs to know.
        key: an ``<svg>`` element with the legend of several panels; empty when the panel has its own.
    """

    name: str
    title: str
    panels: tuple[str, ...]
    alt: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend: the ``kind`` of mark, its colour, and what it stands for."""

    kind: str
    colour: str
    label: str


def colour(place: int) -> str:
    """The colour of the variant at this place, the baseline's being 0."""
    index = place % len(_VARIANTS)
    return f"var(--v{index},{_VARIANTS[index]})"


def marker(place: int, x: float, y: float, size: float = 4) -> str:
    """Path data of the mark of the variant at this place: every variant has its own shape."""
    return shape("odsyv"[place % 5], x, y, size)


def shape(kind: str, x: float, y: float, size: float) -> str:
    """Path data of a mark around a point: ``o`` circle, ``d`` diamond, ``s`` square, ``y`` and ``v``
    triangles that point up and down.
    """
    if kind == "o":
        arc = f"a{figure(size)} {figure(size)} 0 1 0 "
        return f"M{figure(x - size)} {figure(y)}{arc}{figure(2 * size)} 0{arc}{figure(-2 * size)} 0z"
    corners = {
        "d": ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
        "s": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        "y": ((0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
        "v": ((0, 1.15), (1.1, -0.85), (-1.1, -0.85)),
    }[kind]
    return outline([(x + size * dx, y + size * dy) for dx, dy in corners]) + "z"


def outline(points: Sequence[tuple[float, float]]) -> str:
    """Path data of a line through points."""
    return "M" + "L".join(f"{figure(x)} {figure(y)}" for x, y in points)


def figure(value: float) -> str:
    """A length with one decimal at most: a tenth of a unit is finer than a pixel."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def canvas(height: float, width: float = WIDTH) -> Element:
    """An empty panel. One that is narrower than others stays so where it stands alone, or its words would be
    larger than theirs.
    """
    narrow = {} if width == WIDTH else {"style": f"max-width:{figure(WIDEST * width / WIDTH)}rem"}
    return Element(
        "svg",
        {
            **narrow,
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {figure(width)} {figure(height)}",
            "role": "img",
            "font-size": figure(FONT),
            "fill": INK,
        },
    )


def add(parent: Element, tag: str, **attributes: str | float) -> Element:
    """A child element; ``stroke_width`` becomes ``stroke-width``."""
    written = {
        name.replace("_", "-"): value if isinstance(value, str) else figure(value)
        for name, value in attributes.items()
    }
    return ElementTree.SubElement(parent, tag, written)


def path(parent: Element, data: str, **attributes: str | float) -> Element:
    """A path; ``attributes`` say how it is painted."""
    return add(parent, "path", d=data, **attributes)


def line(
    parent: Element, points: Sequence[tuple[float, float]], stroke: str, **attributes: str | float
) -> None:
    """A line through points that encloses nothing."""
    if points:
        path(parent, outline(points), fill="none", stroke=stroke, **attributes)


def text(parent: Element, x: float, y: float, words: str, **attributes: str | float) -> None:
    """Words whose base line starts at a point; ``text_anchor`` moves them."""
    add(parent, "text", x=x, y=y, **attributes).text = words


def width_of(words: str, size: float = FONT) -> float:
    """About how wide words are, by the widest of the usual sans-serif faces (DejaVu Sans)."""
    return size * sum(
        1.0
        if unicodedata.east_asian_width(letter) in "WF"
        else 0.4
        if letter in _NARROW
        else 1.0
        if letter in _WIDE
        else 0.72
        if letter.isupper()
        else 0.64
        for letter in words
    )


def shortened(words: str, room: float, size: float = FONT) -> str:
    """The words, cut at the end with an ellipsis where they are wider than ``room``."""
    if width_of(words, size) <= room:
        return words
    while words and width_of(words + "…", size) > room:
        words = words[:-1]
    return words.rstrip() + "…"


def legend(parent: Element, keys: Sequence[Key], top: float, left: float = 0, right: float = WIDTH) -> float:
    """Draws the legend in as many lines as it needs; returns where the room below it starts."""
    if not keys:
        return top
    x, y = left, top + FONT
    for key in keys:
        label = shortened(key.label, right - left - 24)
        wide = 20 + width_of(label) + 14
        if x > left and x + wide - 14 > right:
            x, y = left, y + FONT + 5
        _mark(parent, key, x + 7, y - 4)
        text(parent, x + 20, y, label)
        x += wide
    return y + 8


def legend_alone(name: str, keys: Sequence[Key]) -> str:
    """The legend of several panels, as an element of its own."""
    root = canvas(0)
    bottom = legend(root, keys, 0)
    root.set("viewBox", f"0 0 {figure(WIDTH)} {figure(bottom)}")
    return finish(root, f"{name}-key", "Legend", ", ".join(key.label for key in keys))


def finish(root: Element, name: str, title: str, alt: str) -> str:
    """The panel as text, with its title and its meaning in words for those who cannot see it."""
    root.set("aria-labelledby", f"{name}-title {name}-alt")
    for place, (tag, words) in enumerate((("title", title), ("desc", alt))):
        element = Element(tag, {"id": f"{name}-{'alt' if tag == 'desc' else tag}"})
        element.text = words
        root.insert(place, element)
    return ElementTree.tostring(root, encoding="unicode")


def _mark(parent: Element, key: Key, x: float, y: float) -> None:
    if key.kind == "band":
        add(parent, "rect", x=x - 7, y=y - 5, width=14, height=10, fill=key.colour, opacity="0.25")
    elif key.kind in ("line", "dashed"):
        dashes = {"stroke_dasharray": "4 3"} if key.kind == "dashed" else {}
        line(parent, [(x - 7, y), (x + 7, y)], key.colour, stroke_width=1.8, **dashes)
    elif key.kind == "ring":
        path(parent, shape("o", x, y, 5), fill="none", stroke=key.colour, stroke_width=1.6)
    else:
        path(parent, shape(key.kind, x, y, 4), fill=key.colour)
