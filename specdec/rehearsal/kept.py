"""What ``rehearse --keep`` leaves running, recorded so that it can be found and ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specdec.errors import EnvironmentFault
from specdec.rehearsal.lock import state_folder


@dataclass(frozen=True, slots=True)
class Kept:
    """A process that was left running, the leader of its group.

    Attributes:
        name: what it is.
        url: where it answers.
        pid: process id.
        started: clock ticks after boot (proc(5), field 22): tells it from a later process of the same number.
        folder: with its files, removed when it is ended; empty for none.
    """

    name: str
    url: str
    pid: int
    started: int
    folder: str = ""


def described(name: str, url: str, pid: int, folder: Path | None = None) -> Kept:
    """A running process as it is to be written down."""
    return Kept(name, url, pid, _started(pid) or 0, str(folder or ""))


def file() -> Path:
    """Where it is written down."""
    return state_folder(os.environ) / "kept.json"


def write(processes: list[Kept]) -> None:
    """Writes down what stays.

    Raises:
        EnvironmentFault: the state folder cannot be written.
    """
    path = file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(process) for process in processes]) + "\n", encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(
            f"Cannot write {path}: {error.strerror}", remedy="Set XDG_STATE_HOME to a folder you may write to"
        ) from None


def running() -> list[Kept]:
    """What was kept and still runs."""
    try:
        items: Any = json.loads(file().read_text(encoding="utf-8"))
        known = [Kept(**item) for item in items]
    except (OSError, ValueError, TypeError):
        return []
    return [process for process in known if process.started and _started(process.pid) == process.started]


def end() -> list[Kept]:
    """Ends what was kept, with all it started, and gives what that was."""
    processes = running()
    for number, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        deadline = time.monotonic() + patience
        while running() and time.monotonic() < deadline:
            time.sleep(0.05)
    for folder in {process.folder for process in processes} - {""}:
        shutil.rmtree(folder, ignore_errors=True)
    file().unlink(missing_ok=True)
    return processes


def _started(pid: int) -> int | None:
    try:
        # The name, in parentheses, may hold spaces; state and start time come after it.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
