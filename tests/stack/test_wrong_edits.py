"""Wrong edits are named by tests that explain: the table is whole, and some of it is tried again."""

import subprocess
import sys

import pytest

from scripts.edits import EDITS, SEVENTEEN
from tests.stack.synthesis import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAGE = ROOT / "docs" / "wrong-edits.md"
SEED = 13


def test_the_table_has_every_edit_and_no_snapshot_names_one() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| --- |")[2].splitlines()[1:]
    rows = [line.strip("| ").split(" | ") for line in table]
    assert [(row[0], row[1].strip("`")) for row in rows] == [(edit.what, edit.file) for edit in EDITS]
    assert not any("snapshot" in row[2] for row in rows)
    assert (len(SEVENTEEN), len(EDITS) - len(SEVENTEEN) >= 20) == (17, True)


@pytest.mark.parametrize("edit", EDITS, ids=[edit.what for edit in EDITS])
def test_every_edit_still_fits(edit: object) -> None:
    """The table is about code that is there."""
    (known,) = [one for one in EDITS if one is edit]
    known.applied((ROOT / known.file).read_text(encoding="utf-8"))


def test_a_few_of_them_are_named_again() -> None:
    tried = subprocess.run(
        [sys.executable, "-m", "scripts.wrong_edits", "--sample", "2", str(SEED)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "2 of 2 named" in tried.stdout
