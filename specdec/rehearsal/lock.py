"""One rehearsal at a time per user: two would disturb each other's measurement."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from specdec.errors import EnvironmentFault


def state_folder(environment: Mapping[str, str]) -> Path:
    """This product's part of the user's state (XDG base directory specification)."""
    home = environment.get("XDG_STATE_HOME") or str(Path(environment.get("HOME", "/")) / ".local" / "state")
    return Path(home) / "specdec"


@contextmanager
def only_one(file: Path | None = None) -> Generator[None, None, None]:
    """Holds the lock while the block runs.

    The lock is the kernel's (flock), not the file's existence: it goes with the process that holds it,
    however that ends, and a file left behind means nothing.

    Args:
        file: the lock file; ``rehearsal.lock`` in the user's state folder by default.

    Raises:
        EnvironmentFault: another rehearsal holds it, or the file cannot be made or locked.
    """
    path = file or state_folder(os.environ) / "rehearsal.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        holder = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(
            f"Cannot write the lock file {path}: {error.strerror}",
            remedy="Set XDG_STATE_HOME to a folder you may write to",
        ) from None
    with holder:
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder.seek(0)
            raise EnvironmentFault(
                f"Another rehearsal is running ({_described(holder.read())})",
                remedy="Wait until it ends, or end it with Ctrl-C",
            ) from None
        except OSError as error:
            raise EnvironmentFault(
                f"Cannot lock {path}: {error.strerror}",
                remedy="Set XDG_STATE_HOME to a folder on a local disk",
            ) from None
        holder.truncate(0)
        holder.write(
            json.dumps({"pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        )
        holder.flush()
        yield


def _described(content: str) -> str:
    try:
        record = json.loads(content)
        return f"process {record['pid']}, since {record['since']}"
    except (ValueError, KeyError, TypeError):
        # Read between the other's lock and its write.
        return "just started"
