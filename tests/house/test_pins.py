import importlib.metadata
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINS = [Requirement(line) for line in PYPROJECT["tool"]["uv"]["constraint-dependencies"]]
IN_FORCE = {canonicalize_name(pin.name): pin for pin in PINS if pin.marker is None or pin.marker.evaluate()}
INSTALLED = {
    canonicalize_name(found.metadata["Name"]): found.version for found in importlib.metadata.distributions()
}


def test_every_installed_package_is_pinned_at_its_version() -> None:
    own = {PYPROJECT["project"]["name"]}
    drift = {
        name: version
        for name, version in INSTALLED.items()
        if name not in own and (name not in IN_FORCE or version not in IN_FORCE[name].specifier)
    }
    assert not drift, f"installed but not pinned so: {drift}; run uv sync, or scripts/pin.py after an upgrade"


def test_every_pin_is_exact_and_installed() -> None:
    assert [str(pin) for pin in PINS if not re.fullmatch(r"==[^*,]+", str(pin.specifier))] == []
    assert IN_FORCE.keys() - INSTALLED.keys() == set()


def test_every_dependency_says_what_it_is_for() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Dependencies")[1].split("\n## ")[0]
    rows = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| "))
    explained = {canonicalize_name(name) for name in re.findall(r"[\w-]+", rows)}
    project = PYPROJECT["project"]
    lines = [*project["dependencies"], *PYPROJECT["dependency-groups"]["dev"]]
    lines += [line for extra in project["optional-dependencies"].values() for line in extra]
    names = {canonicalize_name(Requirement(line).name) for line in lines} - {PYPROJECT["project"]["name"]}
    layers = {name for name in names if "kubectl" in name}
    assert names - layers - explained == set()
    assert len(layers) == 2


def test_every_extra_is_known_where_it_is_missed() -> None:
    from specdec.extras import DISTRIBUTION, EXTRAS

    assert PYPROJECT["project"]["name"] == DISTRIBUTION
    assert EXTRAS.keys() == PYPROJECT["project"]["optional-dependencies"].keys()


def test_npm_packages_are_exact_and_locked() -> None:
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name, version in package["devDependencies"].items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert lock[f"node_modules/{name}"]["version"] == version
    assert not [
        path
        for path, entry in lock.items()
        if path and not entry.get("integrity") and not entry.get("inBundle")
    ]


def test_no_committed_file_names_a_registry_host() -> None:
    # Spelled so that this line does not match itself.
    hosts = re.compile(r"files\.pythonhosted|registry\.npmjs|pypi\.org|deb\.debian")
    assert [
        str(path.relative_to(ROOT))
        for path in tracked()
        if hosts.search(path.read_text(encoding="utf-8", errors="ignore"))
    ] == []


def test_constructs_is_a_source_root_and_never_a_package() -> None:
    import constructs

    assert not (ROOT / "constructs" / "__init__.py").exists()
    assert constructs.__file__ is not None
    assert "site-packages" in constructs.__file__


def test_this_python_is_one_the_project_supports() -> None:
    low, high = re.findall(r"3\.\d+", PYPROJECT["project"]["requires-python"])
    assert tuple(map(int, low.split("."))) <= sys.version_info[:2] < tuple(map(int, high.split(".")))


def tracked() -> list[Path]:
    """Files git tracks, or, outside a checkout, a failure rather than an empty list."""
    import subprocess

    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    paths = [ROOT / name for name in names if name and (ROOT / name).is_file()]
    if not paths:
        pytest.fail("git lists no files")
    return paths
