"""What the product imports is what its package or one of its extras installs."""

from __future__ import annotations

import ast
import importlib.metadata
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OWN = {"specdec", "stacks", "charts", "trainium_constructs"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ELSEWHERE = {"torch", "vllm", "transformers"}
"""What only runs where an engine brings it."""


def _names(folder: str) -> dict[str, str]:
    """Top-level packages that the modules of a folder import, with one module of each; those for types only
    left out.
    """
    found: dict[str, str] = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for guard in [node for node in ast.walk(tree) if isinstance(node, ast.If)]:
            if isinstance(guard.test, ast.Name) and guard.test.id == "TYPE_CHECKING":
                guard.body = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            else:
                continue
            for name in names:
                found.setdefault(name.partition(".")[0], path.relative_to(ROOT).as_posix())
    return {name: where for name, where in found.items() if name not in sys.stdlib_module_names | OWN}


def _installed_by(*lines: str) -> set[str]:
    """Names that can be imported once these requirements are installed."""
    wanted = {canonicalize_name(Requirement(line).name) for line in lines}
    brought = importlib.metadata.packages_distributions()
    return {name for name, by in brought.items() if wanted & {canonicalize_name(one) for one in by}}


EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# What these packages are made of, and hand out.
WITH_THEM = {
    "pydantic": {"pydantic_core", "typing_extensions"},
    "boto3": {"botocore"},
    "jinja2": {"markupsafe"},
    "ministack": {"hypercorn"},
}


def test_the_domain_imports_what_an_installation_has() -> None:
    known = _installed_by(*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra))
    known |= {name for package, more in WITH_THEM.items() if package in known for name in more}
    assert {name: where for name, where in _names("specdec").items() if name not in known | ELSEWHERE} == {}


def test_every_dependency_of_the_package_alone_is_imported() -> None:
    imported = set(_names("specdec"))
    unused = [line for line in PROJECT["dependencies"] if not _installed_by(line) & imported]
    assert unused == []


def test_what_measures_and_reports_needs_no_extra() -> None:
    alone = _installed_by(*PROJECT["dependencies"])
    alone |= {name for package, more in WITH_THEM.items() if package in alone for name in more}
    for folder in ("benchmark", "analysis", "metrics", "plots", "prompts", "report", "golden"):
        assert {name: where for name, where in _names(f"specdec/{folder}").items() if name not in alone} == {}
