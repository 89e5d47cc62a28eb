"""Other ways to be ended than Ctrl-C, for the commands that have something to keep or to clean up."""

from __future__ import annotations

import signal
from collections.abc import Coroutine
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

_Result = TypeVar("_Result")

_running: list[asyncio.Task[Any]] = []
"""The task that ``run`` waits for, if any."""


def end_as_ctrl_c_does() -> None:
    """From here on, a supervisor that ends this process and a terminal that closes are taken as Ctrl-C is."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)


def run(main: Coroutine[Any, Any, _Result]) -> _Result:
    """``asyncio.run``, which an end by a supervisor cancels as Ctrl-C does, even where SIGINT is ignored.

    There asyncio takes no notice of SIGINT, and an exception from a signal handler would end the event loop
    before ``main`` could keep what it has.

    Raises:
        KeyboardInterrupt: it was ended so, and ``main`` had nothing to keep.
    """
    import asyncio

    async def registered() -> _Result:
        task = asyncio.current_task()
        assert task is not None
        _running.append(task)
        try:
            return await main
        finally:
            _running.remove(task)

    try:
        return asyncio.run(registered())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _end(number: int, frame: FrameType | None) -> None:
    del number
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    # A shell script starts a command in the background with SIGINT ignored; it is to end all the same.
    if callable(on_ctrl_c):
        on_ctrl_c(signal.SIGINT, frame)
    elif _running and not _running[-1].cancelling():
        task = _running[-1]
        task.get_loop().call_soon_threadsafe(task.cancel)
    else:
        # Nothing runs that could end by itself, or it was asked before and goes on.
        raise KeyboardInterrupt
