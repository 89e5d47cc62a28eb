"""The report as one HTML file that needs nothing else: no request, no script, no font."""

from __future__ import annotations

from importlib.resources import files

from specdec.report.content import Content, parts


def render(report: Content, digest: str) -> str:
    """The whole page; ``digest`` is the SHA-256 of the records it was computed from."""
    from jinja2 import BaseLoader, Environment, StrictUndefined
    from markupsafe import Markup

    templates = files("specdec.report") / "templates"
    environment = Environment(
        loader=BaseLoader(), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    template = environment.from_string((templates / "report.html").read_text(encoding="utf-8"))
    css = Markup((templates / "report.css").read_text(encoding="utf-8").strip())  # noqa: S704 - our own file
    return template.render(report=report, css=css, parts=parts, digest=digest)
