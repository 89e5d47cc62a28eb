"""The gates that read the whole tree, as tests, so that one command passes them all."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


# Newer Pythons get newer packages, whose types only their own version can read.
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"


# The type checker takes minutes of a processor where several tests share it.
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "command", ["ruff check .", "ruff format --check .", f"basedpyright --pythonversion {RUNNING}"]
)
def test_gate(command: str) -> None:
    tool, *arguments = command.split()
    found = subprocess.run([BIN / tool, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
