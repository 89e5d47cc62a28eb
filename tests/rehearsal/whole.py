"""A whole rehearsal in a process of its own, and what it leaves running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from specdec.rehearsal.emulator import CHECKOUT

ANSWERS = "output_tokens = 600"


def children_of(marker: str) -> list[str]:
    """Command lines of processes whose environment names ``marker``: everything that a rehearsal started has
    inherited it.
    """
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """Rehearses the default experiment with shorter answers, which take most of the time."""
    text = (CHECKOUT / "experiment.toml").read_text(encoding="utf-8")
    assert ANSWERS in text
    path = tmp_path / "experiment.toml"
    path.write_text(text.replace(ANSWERS, "output_tokens = 48"), encoding="utf-8")
    command = [sys.executable, "-m", "specdec", "rehearse", "--experiment", str(path)]
    return subprocess.Popen(
        [*command, "--out", str(tmp_path / "runs"), *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
