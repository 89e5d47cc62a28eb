import subprocess
import sys
from pathlib import Path

import pytest

from scripts import write_commands

ROOT = Path(__file__).parents[2]


def test_the_experiment_page_says_what_the_types_say() -> None:
    found = subprocess.run(
        [sys.executable, "scripts/write_reference.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr


def test_the_commands_page_says_what_help_says() -> None:
    found = subprocess.run(
        [sys.executable, "scripts/write_commands.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr


def test_a_stale_commands_page_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "commands.md"
    page.write_text(write_commands.page().replace("leftovers", "rest"), encoding="utf-8")
    monkeypatch.setattr(write_commands, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["write_commands.py", "--check"])
    assert write_commands.main() == 1


def test_examples_keep_their_lines() -> None:
    # A raw docstring would hand click its marker as two characters, which it prints and does not obey.
    assert "\\b" not in write_commands.page()
