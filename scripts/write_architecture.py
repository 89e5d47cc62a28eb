"""Writes docs/architecture.md from the imports themselves, so that the picture cannot drift from the code.

uv run python scripts/write_architecture.py          # write
uv run python scripts/write_architecture.py --check  # exit 1 if the page is stale; the tests do this
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"

Arrows = dict[str, set[str]]
"""Package to the packages it imports."""

OUTSIDE = {"stacks": "stacks", "trainium_constructs": "constructs", "charts": "charts", "app": "app"}
"""Packages beside ``specdec``, by their import name, with the name of their folder."""

HEAD = """# Architecture

This page is written by `scripts/write_architecture.py` from the imports. An arrow points from a package
to what it imports; the arrows form no circle, and a test keeps it so. Small modules at the top of
`specdec` (`errors`, `console`, `aws`, ...) that everything may use are left out of the picture.

"""


def package_of(module: str) -> str | None:
    """The package a module belongs to: a folder of ``specdec``, or one beside it; None for foreign code."""
    first, *rest = module.split(".")
    if first == "specdec":
        return rest[0] if rest and (ROOT / "specdec" / rest[0]).is_dir() else None
    return OUTSIDE.get(first)


def imports(path: Path) -> Iterator[str]:
    """Names of the modules a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the product with its file."""
    for folder in ("specdec", "stacks", "charts", "constructs/trainium_constructs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("constructs."), path
    yield "app", ROOT / "app.py"


def arrows() -> Arrows:
    """Which package imports which."""
    drawn: Arrows = {}
    for module, path in modules():
        source = package_of(module)
        if source is None:
            continue
        targets = {package_of(name) for name in imports(path)}
        drawn.setdefault(source, set()).update(target for target in targets if target not in (None, source))
    return drawn


def circle(drawn: Mapping[str, set[str]]) -> list[str]:
    """Packages that import each other in a circle; empty where there is none."""
    try:
        TopologicalSorter(drawn).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def nearest(drawn: Mapping[str, set[str]]) -> Arrows:
    """The arrows without those that follow from others: what a package imports only by way of another."""

    def reached(start: str) -> set[str]:
        return {target for step in drawn.get(start, ()) for target in {step, *reached(step)}}

    return {
        package: {
            target
            for target in targets
            if not any(target in reached(other) for other in targets if other != target)
        }
        for package, targets in drawn.items()
    }


def purpose(package: str) -> str:
    """First line of the package's docstring."""
    folder = {"constructs": ROOT / "constructs" / "trainium_constructs"}.get(package)
    for candidate in (folder, ROOT / "specdec" / package, ROOT / package):
        if candidate and (candidate / "__init__.py").exists():
            text = ast.get_docstring(ast.parse((candidate / "__init__.py").read_text(encoding="utf-8"))) or ""
            return " ".join(text.split("\n\n")[0].split())
    return "The CDK app: one stack per region of the experiment."


def page() -> str:
    """The whole page."""
    drawn = arrows()
    lines = [HEAD, "```mermaid\nflowchart TD\n"]
    for package, targets in sorted(nearest(drawn).items()):
        lines += [f"    {package} --> {target}\n" for target in sorted(targets)]
    lines.append("```\n\n| package | what it is | imports |\n| --- | --- | --- |\n")
    for package in sorted(drawn):
        lines.append(f"| `{package}` | {purpose(package)} | {', '.join(sorted(drawn[package])) or '-'} |\n")
    return "".join(lines)


def main() -> int:
    """Writes the page, or with ``--check`` compares it."""
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
            print(f"{PAGE.name} is stale: uv run python scripts/write_architecture.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
