"""How the tests share a machine: in two processes, but a test that measures time has it to itself.

A plugin of ``conftest.py``. Modules marked ``alone`` run last, one by one, while the other process waits.
"""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "tests/emulated/": "drill",
    "tests/operate/test_deployed.py": "drill",
    "tests/stack/": "templates",
    "tests/operate/test_leftovers.py": "templates",
}
"""Folders and files whose tests share what takes long to make, so that one process makes it once."""


def group_of(nodeid: str) -> str:
    """The tests that run in one process: those of a file, or of files that share something."""
    file = nodeid.split("::", 1)[0]
    return next((group for start, group in TOGETHER.items() if file.startswith(start)), file)


class Groups(LoadScopeScheduling):  # pyright: ignore[reportUntypedBaseClass]
    """Hands out tests by ``group_of``.

    xdist's own ``loadgroup`` writes to a private attribute that pytest 9.2 no longer has, and then groups
    nothing without saying so.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """Called by xdist."""
    return Groups(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest group first, and what measures last."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    return 2 if _alone(item) else 0 if group_of(item.nodeid) == "drill" else 1


def _alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Waits for the machine. Outside the time limit of the test, and around its fixtures."""
    with _machine(item.config.rootpath / ".pytest_cache", alone=_alone(item)):
        return (yield)


@contextmanager
def _machine(folder: Path, *, alone: bool) -> Generator[None]:
    folder.mkdir(exist_ok=True)
    with (folder / "door.lock").open("a") as door, (folder / "machine.lock").open("a") as machine:
        # Who waits to be alone holds the door, so that no further test slips in before it.
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield
