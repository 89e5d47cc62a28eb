"""Writes docs/experiment.md from the experiment's own types, so that the page cannot drift from the code.

uv run python scripts/write_reference.py          # write
uv run python scripts/write_reference.py --check  # exit 1 if the page is stale; the tests do this
"""

from __future__ import annotations

import html
import json
import sys
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from specdec.experiment.fields import Experiment, Section

PAGE = Path(__file__).parents[1] / "docs" / "experiment.md"

HEAD = """# The experiment file

One TOML file describes the whole experiment; `experiment.toml` is the published one. Unknown keys
are refused, and all mistakes are reported in one run. This page is written by
`scripts/write_reference.py` from the types in `specdec/experiment/sections.py`.

[instances.md](instances.md) says which instance runs which serving stack and mode, and how sure that
is.
"""


def kind(annotation: Any) -> str:
    """A type as a reader of TOML would say it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " \\| ".join(f"`{argument!r}`".replace("'", '"') for argument in arguments)
    if origin in (Union, types.UnionType):
        return " \\| ".join(kind(argument) for argument in arguments if argument is not type(None))
    if origin is tuple:
        return f"list of {kind(arguments[0])}"
    if origin is dict:
        return f"table of {kind(arguments[1])}"
    names: dict[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return names.get(annotation, "table")


def default(field: FieldInfo) -> str:
    """The default as written in TOML, or that there is none."""
    value = field.get_default(call_default_factory=True)
    if field.is_required() or value is PydanticUndefined:
        return "required"
    if value is None:
        return "none"
    # JSON spells the texts, numbers, truth values and lists that a default can be as TOML does.
    return f"`{json.dumps(value)}`"


def table(heading: str, section: type[Section]) -> list[str]:
    """One section as a Markdown table."""
    lines = [
        "",
        f"## {heading}",
        "",
        (section.__doc__ or "").strip(),
        "",
        "| field | value | default | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for name, field in section.model_fields.items():
        if nested(field.annotation) is None:
            lines.append(
                f"| `{name}` | {kind(field.annotation)} | {default(field)} |"
                f" {escaped(field.description or '')} |"
            )
    return lines


def nested(annotation: Any) -> type[Section] | None:
    """The section type that a field holds, if it holds any."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, Section):
            return candidate
    return None


def escaped(text: str) -> str:
    """Markdown with what would be HTML escaped, but not inside backticks, where it is shown as it stands."""
    parts = text.split("`")
    return "`".join(part if index % 2 else html.escape(part, quote=False) for index, part in enumerate(parts))


def page() -> str:
    """The whole page."""
    lines = [HEAD.rstrip(), *table("Top level", Experiment)]
    for name, field in Experiment.model_fields.items():
        section = nested(field.annotation)
        if section is None:
            continue
        origin = get_origin(field.annotation)
        key = "region" if name == "placement" else "name"
        heading = (
            f"`[[{name}]]`" if origin is tuple else f"`[{name}.<{key}>]`" if origin is dict else f"`[{name}]`"
        )
        lines += table(heading, section)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Writes or checks the page."""
    if "--check" in sys.argv[1:]:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != page():
            print(f"{PAGE.name} is stale: run scripts/write_reference.py", file=sys.stderr)
            return 1
        return 0
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
