"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from specdec.errors import EnvironmentFault

SCRATCH = ".new"
"""How the name of a file ends that is not whole yet."""

_REMEDY = "Free some space or allow writing there, then run the command again"


def write(path: Path, text: str, *, remedy: str = _REMEDY) -> None:
    """Puts a text in place of a file at once: whoever looks finds the old file or the new one, even after a
    crash.

    A file that is replaced keeps its permissions: what its owner closed to others stays closed.

    Args:
        path: the file; its folder must exist.
        text: all of it.
        remedy: what to do where it cannot be written.

    Raises:
        EnvironmentFault: it cannot be written: no space, or no permission.
    """
    # With the process in its name, so that two that write one file do not write into each other's.
    scratch = path.with_name(f".{path.name}.{os.getpid()}{SCRATCH}")
    try:
        try:
            with scratch.open("w", encoding="utf-8", newline="\n") as file:
                # Before there is anything to read.
                with contextlib.suppress(FileNotFoundError):
                    os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                scratch.unlink()
            raise
    except OSError as error:
        raise unwritable(path, error, remedy=remedy) from None


def unwritable(path: Path, error: OSError, *, remedy: str = _REMEDY) -> EnvironmentFault:
    """The fault of a file or folder that the system does not let be written."""
    return EnvironmentFault(f"{path} cannot be written: {error.strerror or error}", remedy=remedy)
