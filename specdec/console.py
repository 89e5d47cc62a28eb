"""One look for every command: progress and messages on stderr, results on stdout, colour only where a person
looks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager


def say(message: str) -> None:
    """Prints one message for a person to stderr."""
    print(message, file=sys.stderr, flush=True)


class Progress:
    """How far one long step is. ``update`` may be called as often as wanted; lines are drawn at most ten
    times a second.

    Attributes:
        title: what the step is.
        started: monotonic clock, seconds.
        outcome: how it ended, as its last line says unless it raises.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.outcome = "done"
        self.started = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._drawn = 0.0
        self._detail = ""
        if not self._terminal:
            say(f"{title} ...")

    def update(self, detail: str, done: int | None = None, total: int | None = None) -> None:
        """Shows what is being done now and, where known, how much of how much."""
        self._detail = f"{detail} {done}/{total}" if done is not None and total is not None else detail
        now = time.monotonic()
        if self._terminal and (now - self._drawn > 0.1 or done == total):
            self._drawn = now
            sys.stderr.write(f"\r\x1b[2K{self.title}: {self._detail} ({now - self.started:.0f} s)")
            sys.stderr.flush()

    def close(self, outcome: str) -> None:
        """Ends the step with one lasting line: what it is, how it ended, how long it took."""
        elapsed = time.monotonic() - self.started
        say(f"{chr(13) + chr(27) + '[2K' if self._terminal else ''}{self.title}: {outcome} ({elapsed:.1f} s)")


@contextmanager
def progress(title: str) -> Generator[Progress]:
    """A step of a command. Says how it ended even when it fails."""
    step = Progress(title)
    try:
        yield step
    except BaseException as error:
        step.close("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    step.close(step.outcome)
