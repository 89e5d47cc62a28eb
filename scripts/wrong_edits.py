"""Makes wrong edits one at a time in a copy of this tree, and writes which test names each.

    uv run python -m scripts.wrong_edits                # all of them, into docs/wrong-edits.md
    uv run python -m scripts.wrong_edits WORDS...       # those with these words, printed
    uv run python -m scripts.wrong_edits --sample 3 7   # three, chosen by the seed 7; the tests do this

A snapshot notices everything and explains nothing, so snapshots are left out: an edit counts as found when
another test fails and its message says which object, what is there, and what was expected.
"""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.edits import EDITS, Edit

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "wrong-edits.md"
FILES = ("app.py", "cdk.json", "experiment.toml", "pyproject.toml")
FOLDERS = ("charts", "constructs", "docs", "examples", "scripts", "specdec", "stacks", "tests")
OURS = ("charts", "specdec", "stacks", "tests", "trainium_constructs")
FIRST = ("stack/test_agreements.py", "stack/test_roles.py", "serving/test_manifests.py")
"""Tests that compare objects with each other, before those that look at one."""
HEAD = """# Wrong edits, and what names them

Written by `scripts/wrong_edits.py`: it makes each edit in a copy of this tree and runs the tests of
charts and stack without the snapshots, up to the first that fails. The first seventeen are the kind
that was once noticed by nothing; the others are slips of the same kind elsewhere. The tests make
some of them at every run.

| edit | in | named by | message |
| --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Named:
    """What the tests said of an edit; ``test`` is None where nothing failed."""

    edit: Edit
    test: str | None
    message: str

    @property
    def well(self) -> bool:
        """Whether a test failed, and said what it has to say."""
        return self.test is not None and self.edit.names in self.message


def copy_tree(target: Path) -> None:
    """Copies what the tests of charts and stack read."""
    for name in FILES:
        shutil.copy2(ROOT / name, target / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.png"))


def tests() -> list[str]:
    """Modules of tests in the order in which they run, without the snapshots."""
    others = (f"stack/{path.name}" for path in sorted((ROOT / "tests/stack").glob("test_*.py")))
    modules = [*FIRST, *(name for name in others if name not in (*FIRST, "stack/test_snapshot.py"))]
    return [f"tests/{name}" for name in modules]


def apply(edit: Edit, tree: Path) -> None:
    """Makes the edit in a copy of the tree.

    Raises:
        ValueError: the edit no longer fits.
    """
    path = tree / edit.file
    path.write_text(edit.applied(path.read_text(encoding="utf-8")), encoding="utf-8")


class First:
    """A plugin of pytest that keeps the first failure."""

    test: str | None = None
    message = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest after each phase of each test."""
        if report.failed and self.test is None:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.test = report.nodeid.removeprefix("tests/")
            self.message = str(getattr(crash, "message", report.longrepr)).removeprefix("AssertionError: ")


def try_edit(edit: Edit, tree: Path) -> Named:
    """Runs the tests over the edited tree, up to the first that fails.

    In this process, since starting the CDK takes longer than the tests do: what an earlier tree brought in
    is forgotten first.
    """
    apply(edit, tree)
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    first = First()
    with contextlib.chdir(tree), contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["-x", "-n0", "-q", "-p", "no:cacheprovider", *tests()], plugins=[first])
    return Named(edit, first.test, first.message)


def row(named: Named) -> str:
    """Its line of the table."""
    first = named.message.splitlines()[0] if named.message else "nothing"
    if len(first) > 260:
        first = f"{first[:260]} ..."
    cells = (
        named.edit.what,
        f"`{named.edit.file}`",
        f"`{named.test}`",
        first.replace("|", "\\|").replace("<", "&lt;"),
    )
    return f"| {' | '.join(cells)} |"


def chosen(words: Sequence[str]) -> list[Edit]:
    """The edits that the command line asks for, each of which still fits.

    Raises:
        ValueError: one does not, or the command line makes no sense.
    """
    if words[:1] == ["--sample"]:
        count, seed = map(int, words[1:])
        edits = random.Random(seed).sample(EDITS, count)
    else:
        edits = [edit for edit in EDITS if not words or any(word in edit.what for word in words)]
    for edit in edits:
        edit.applied((ROOT / edit.file).read_text(encoding="utf-8"))
    return edits


def main() -> int:
    """Tries the edits and returns 1 if one is not named."""
    words = sys.argv[1:]
    edits = chosen(words)
    rows: list[str] = []
    unnamed: list[str] = []
    for number, edit in enumerate(edits, 1):
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            copy_tree(tree)
            named = try_edit(edit, tree)
        rows.append(row(named))
        print(f"{number}/{len(edits)} {rows[-1]}", file=sys.stderr, flush=True)
        if not named.well:
            unnamed.append(f"{edit.what}: expected {edit.names!r}, got {named.test}: {named.message[:500]}")
    print(*unnamed, f"{len(edits) - len(unnamed)} of {len(edits)} named", sep="\n")
    if not words and not unnamed:
        PAGE.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main())
