"""Draws with matplotlib into SVG that lives inside a page: text stays text, colours are the page's, bytes are
reproducible.
"""

# pyright: reportUnknownMemberType=false
# matplotlib ships types whose **kwargs have none.

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 4.6
"""Inches. Narrow enough that its ten-point text can be read on a phone, where the picture is as wide as the
screen.
"""

INK, MUTED, RULE, GOOD, BAD = "#a00001", "#a00002", "#a00003", "#a00004", "#a00005"
"""Colour stand-ins: each becomes a CSS variable of the page, so that one picture serves dark and light."""

VARIANT_COLOURS = ("#b00000", "#b00001", "#b00002", "#b00003", "#b00004")
"""One per variant, the baseline first; on the page a colour-blind-safe set, told apart by ``MARKERS`` too."""

MARKERS = ("o", "D", "s", "^", "v")
_VARIABLES = {INK: "--ink", MUTED: "--muted", RULE: "--rule", GOOD: "--good", BAD: "--bad"} | {
    colour: f"--v{index}" for index, colour in enumerate(VARIANT_COLOURS)
}
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "specdec",
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.labelcolor": INK,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot and what it shows in words.

    Attributes:
        name: short id, unique on the page.
        title: what is plotted, with the unit.
        svg: an ``<svg>`` element to put into HTML as it is.
        alt: what a person who cannot see it needs to know.
    """

    name: str
    title: str
    svg: str
    alt: str


def marker(index: int) -> str:
    """The marker of the variant at this place in the manifest."""
    return MARKERS[index % len(MARKERS)]


def colour(index: int) -> str:
    """The colour of the variant at this place in the manifest."""
    return VARIANT_COLOURS[index % len(VARIANT_COLOURS)]


def draw(
    name: str,
    title: str,
    alt: str,
    *,
    height: float,
    paint: Callable[[Sequence[Axes]], None],
    rows: int = 1,
    columns: int = 1,
    legend: bool = True,
) -> Picture:
    """Makes one picture of ``rows`` times ``columns`` panels, ``height`` inches high; ``paint`` fills the
    panels.

    With ``legend``, one legend above all panels, from the labels that the panels set.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):  # pyright: ignore[reportArgumentType]
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        panels: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).flat)
        paint(panels)
        if legend:
            seen: dict[str, Any] = {}
            for panel in panels:
                handles, labels = panel.get_legend_handles_labels()
                for handle, label in zip(handles, labels, strict=True):
                    seen.setdefault(str(label), handle)
            figure.legend(
                seen.values(),
                seen.keys(),
                loc="outside upper left",
                ncols=3,
                handletextpad=0.5,
                columnspacing=1.2,
            )
        buffer = io.BytesIO()
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return Picture(name, title, _for_page(buffer.getvalue().decode(), name, title, alt), alt)


def _for_page(document: str, name: str, title: str, alt: str) -> str:
    """Turns matplotlib's document into an element: no prologue, no ids that clash, no fonts of its own, page
    colours.
    """
    body = document[document.index("<svg") :]
    box = body.split('viewBox="', 1)[1].split('"', 1)[0]
    inner = body[body.index(">") + 1 : body.rindex("</svg>")]
    inner = re.sub(r"\s*<style type=.*?</style>", "", inner, flags=re.DOTALL)
    inner = re.sub(r"\s*<metadata>.*?</metadata>", "", inner, flags=re.DOTALL)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', inner))
    inner = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", inner)
    inner = re.sub(r'xlink:href="#', f'href="#{name}-', inner)
    inner = re.sub(r"url\(#", f"url(#{name}-", inner)
    inner = re.sub(r" font-family: [^;\"]+;", "", inner)
    inner = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", inner)
    inner = re.sub(
        r"#[0-9a-f]{6}\b", lambda m: f"var({_VARIABLES[m[0]]})" if m[0] in _VARIABLES else m[0], inner
    )
    inner = re.sub(r"\n\s*", "\n", inner)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" aria-labelledby="{name}-title'
        f' {name}-alt"><title id="{name}-title">{_escape(title)}</title><desc'
        f' id="{name}-alt">{_escape(alt)}</desc>{inner}</svg>'
    )


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
