"""The drill's facts, and one emulator for the tests that only need an account."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from specdec.experiment import load
from specdec.rehearsal.emulator import CHECKOUT, EmbeddedAws

DRILL_SECONDS = 900
SECOND_REGION = """
[placement.ap-south-2]
zone = "ap-south-2b"
"""
NAME, REGIONS, DESIRED, WINDOW = 'name = "qwen3-specdec"', 'regions = ["us-east-2"]', "desired_nodes = 1", "window = 7"
EMPTIED = """
[store]
on_destroy = "empty"
"""
VARIANT = 'name = "speculative"'


def experiment_text(*edits: tuple[str, str]) -> str:
    """The default experiment after edits, each of which must apply."""
    text = (CHECKOUT / "experiment.toml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="session")
def drill(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the drill saw: the real app deployed, changed, destroyed; deployed again to fail, destroyed."""
    folder = tmp_path_factory.mktemp("drill")
    two = ((NAME, 'name = "drill"'), (REGIONS, 'regions = ["us-east-2", "ap-south-2"]'))
    # One region of the two, so that a region is seen to change without the other.
    changes = ((NAME, 'name = "drill"'), (DESIRED, "desired_nodes = 0"), (WINDOW, "window = 5"), (VARIANT, 'name = "drafted"'))
    files = {
        "experiment.toml": experiment_text(*two) + SECOND_REGION + EMPTIED,
        "changed.toml": experiment_text(*changes) + EMPTIED,
        "failing.toml": experiment_text((NAME, 'name = "failing"')),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("drill.py")), str(folder)],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=DRILL_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stderr}\n(logs in {folder})"
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    return facts | {"experiment": load(folder / "experiment.toml"), "changed": load(folder / "changed.toml")}


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Generator[EmbeddedAws, None, None]:
    """A running embedded account."""
    with EmbeddedAws(tmp_path_factory.mktemp("account")) as aws:
        yield aws
