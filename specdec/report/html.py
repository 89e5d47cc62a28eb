"""The report as one HTML file that needs nothing else: no request, no script, no font."""

from __future__ import annotations

from importlib.resources import files

from specdec.report.content import Content, pages, parts
from specdec.report.numbers import Number


class _Lines:
    """The sets of lines behind the numbers of a page, each written once.

    Attributes:
        all: id to lines, as a person writes them.
    """

    def __init__(self) -> None:
        self.all: dict[str, str] = {}
        self._ids: dict[tuple[int, ...], str] = {}

    def __call__(self, number: Number) -> str:
        """The id of the number's lines."""
        known = self._ids.get(number.lines)
        if known is None:
            known = self._ids[number.lines] = f"lines-{len(self._ids) + 1}"
            self.all[known] = number.where
        return known


def render(report: Content, digest: str | None) -> str:
    """The whole page; ``digest`` is the SHA-256 of the records it was computed from, None without any."""
    from jinja2 import BaseLoader, Environment, StrictUndefined
    from markupsafe import Markup

    templates = files("specdec.report") / "templates"
    environment = Environment(
        loader=BaseLoader(), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    template = environment.from_string((templates / "report.html").read_text(encoding="utf-8"))
    css = Markup((templates / "report.css").read_text(encoding="utf-8").strip())  # noqa: S704 - our own file
    return template.render(report=report, css=css, parts=parts, digest=digest, lines=_Lines(), pages=pages)
