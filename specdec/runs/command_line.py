"""The command line that made a run, as its manifest keeps it: to measure again, and to go on with it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, cast

from specdec.runs.manifest import RunManifest
from specdec.text import HIDDEN

Entry = tuple[str, ...]
"""An option, with its value if it takes one."""

PROGRAM = ("specdec", "bench")

_NEEDED_AGAIN = frozenset(
    ("--api-key-env", "--api-key-header", "--header", "--cacert", "--insecure", "--prompt-column", "--out")
)
"""Options that a resumed run cannot take from the manifest."""


def of(manifest: RunManifest) -> str:
    """The command line that made the run; empty where it was no ``specdec bench``, or an older one."""
    load: Any = manifest.environment.get("load")
    command = cast("dict[str, Any]", load).get("command") if isinstance(load, dict) else None
    return command if isinstance(command, str) else ""


def entries(line: str) -> list[Entry]:
    """The options of a line that ``joined`` made."""
    made: list[Entry] = []
    for word in shlex.split(line)[len(PROGRAM) :]:
        if word.startswith("--") or not made:
            made.append((word,))
        else:
            made[-1] = (*made[-1], word)
    return made


def joined(options: Sequence[Entry]) -> str:
    """The line with these options, as a shell takes it."""
    return shlex.join([*PROGRAM, *(word for option in options for word in option)])


def resuming(line: str, run: str) -> str:
    """The line that goes on with an interrupted run.

    Args:
        line: the command line that made the run.
        run: its id or folder.
    """
    needed = [
        entry
        for entry in entries(line)
        if entry[0] in _NEEDED_AGAIN or (entry[0] == "--target" and HIDDEN in entry[-1])
    ]
    return joined([("--resume", run), *needed])
