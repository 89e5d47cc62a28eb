"""The packages import each other in one direction, and some not at all."""

import pytest

from scripts import write_architecture
from scripts.write_architecture import Arrows, arrows, circle, nearest

pytestmark = pytest.mark.slow

CLIENT = {"charts", "commands", "pod", "rehearsal", "stacks"}
"""What may import the benchmark: what runs it, and what counts or packs the prompts it sends."""


@pytest.fixture(scope="module")
def imports() -> Arrows:
    """What each package imports; reading the whole tree takes a second."""
    return arrows()


def test_no_package_circle(imports: Arrows) -> None:
    assert circle(imports) == []


@pytest.mark.parametrize("package", ["operate", "report"])
def test_what_exists_is_asked_without_the_checks(package: str, imports: Arrows) -> None:
    assert "preflight" not in imports[package]


def test_only_what_measures_imports_the_client(imports: Arrows) -> None:
    assert {package for package, targets in imports.items() if "benchmark" in targets} <= CLIENT


def test_the_domain_imports_neither_constructs_nor_charts(imports: Arrows) -> None:
    inside = imports.keys() - {*write_architecture.OUTSIDE.values()}
    above = {package: imports[package] & {"app", "stacks", "constructs", "charts"} for package in inside}
    assert {package: targets for package, targets in above.items() if targets} == {"commands": {"charts"}}


def test_a_circle_is_found() -> None:
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    assert nearest({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
