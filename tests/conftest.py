"""What every test may count on, and the one drill in an embedded account that tests of several folders ask
about.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specdec.experiment.reading import load
from specdec.rehearsal import packages
from specdec.rehearsal.emulator import CHECKOUT

pytest_plugins = ["tests.schedule"]

# A shell starts what runs in its background with SIGINT ignored, and processes of the tests would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)

DRILL_SECONDS = 900
NAME = 'name = "qwen3-specdec"'
CHANGES = (
    ("desired_nodes = 0", "desired_nodes = 1"),
    ("window = 7", "window = 5"),
    ('name = "speculative"', 'name = "drafted"'),
)
EMPTIED = """
[cluster]
admin_principal_arns = ["arn:aws:iam::111122223333:user/engineer"]

[store]
on_destroy = "empty"
"""


@pytest.fixture(scope="session")
def npm_packages(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the npm packages, which a fresh clone that was never rehearsed does not have yet."""
    # Not above: pytest rewrites the assertions of a plugin that it imports itself.
    from tests.schedule import one_at_a_time

    with one_at_a_time(pytestconfig, "npm"):
        if not packages.present(CHECKOUT):
            log = tmp_path_factory.mktemp("npm") / "npm-ci.log"
            packages.install(CHECKOUT, dict(os.environ), log, lambda _: None)
    return CHECKOUT / "node_modules"


def _experiment_text(*edits: tuple[str, str]) -> str:
    """The default experiment after edits, each of which must apply."""
    text = (CHECKOUT / "experiment.toml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="session")
def drill(npm_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the drill saw: the real app cloned, deployed, used, changed, destroyed; deployed again to fail,
    destroyed.
    """
    folder = tmp_path_factory.mktemp("drill")
    named = (NAME, 'name = "drill"')
    files = {
        # The drill adds a second region to this one, and the change is to one of the two, so that it is seen
        # to leave the other alone.
        "experiment.toml": _experiment_text(named) + EMPTIED,
        "changed.toml": _experiment_text(named, *CHANGES) + EMPTIED,
        "failing.toml": _experiment_text((NAME, 'name = "failing"')),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(CHECKOUT / "tests" / "emulated" / "drill.py"), str(folder)],
        cwd=CHECKOUT,
        env=os.environ
        | {
            "PYTHONPATH": str(CHECKOUT),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=DRILL_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stderr}\n(logs in {folder})"
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    return facts | {
        "folder": folder,
        "experiment": load(folder / "experiment.toml"),
        "changed": load(folder / "changed.toml"),
    }
