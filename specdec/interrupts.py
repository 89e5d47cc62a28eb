"""Other ways to be ended than Ctrl-C, for the commands that have something to keep or to clean up."""

from __future__ import annotations

import signal
from types import FrameType


def end_as_ctrl_c_does() -> None:
    """From here on, a supervisor that ends this process and a terminal that closes are taken as Ctrl-C is."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    del number
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    # A shell script starts a command in the background with SIGINT ignored; it is to end all the same.
    if not callable(on_ctrl_c):
        raise KeyboardInterrupt
    on_ctrl_c(signal.SIGINT, frame)
