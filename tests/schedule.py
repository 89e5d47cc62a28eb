"""How the tests share a machine: in two processes, but a test that measures time has it to itself.

A plugin of ``conftest.py``. Modules marked ``alone`` run last, one by one, while the other process waits.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "tests/emulated/test_existing.py": "existing",
    "tests/emulated/": "drill",
    "tests/operate/test_deployed.py": "drill",
    "tests/stack/": "templates",
    "tests/operate/test_leftovers.py": "templates",
}
"""Folders and files whose tests share what takes long to make, so that one process makes it once. The first
that fits a file counts.
"""

LONGEST = ("drill", "tests/house/test_gates.py", "tests/rehearsal/test_rehearsal.py", "existing")
"""Groups that take a minute and more. They begin first, so that none of them is left alone at the end."""

TRIES = 4
"""How often a test is tried that is to be alone, while others take the processor from it."""

BUSY = 0.1
"""Share of one processor from which on others are said to take it."""

AGAIN = "tried again"
"""Property of a test that was."""


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
    """Puts the longest groups first, and what measures last."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if _alone(item):
        return len(LONGEST) + 1
    group = group_of(item.nodeid)
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


def _alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Waits for the machine. Outside the time limit of the test, and around its fixtures."""
    with _machine(item.config.rootpath / ".pytest_cache", alone=_alone(item)):
        return (yield)


class Trying:
    """Runs a test that is to be alone again where it fails and programs that are not ours took the processor
    from it: what it asserts holds on a machine of its own.
    """

    @staticmethod
    def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """See pytest's own."""
        if not _alone(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports, others = _run(item, nextitem)
        again = 0
        while any(report.failed for report in reports) and others >= BUSY and again < TRIES - 1:
            again += 1
            _renew(item)
            reports, others = _run(item, nextitem)
            reports[-1].user_properties.append((AGAIN, again))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def pytest_configure(config: pytest.Config) -> None:
    """Adds what runs tests again."""
    config.pluginmanager.register(Trying())


def _renew(item: Any) -> None:
    """Has the fixtures of a test made anew, as pytest itself does before its first run."""
    item._initrequest()


def _run(item: pytest.Item, nextitem: pytest.Item | None) -> tuple[list[pytest.TestReport], float]:
    """What came of a test, and the processors that others took meanwhile: 1.0 is the whole of one."""
    began, used, own = time.monotonic(), _used(), _own()
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    seconds = time.monotonic() - began
    return reports, (_used() - used - (_own() - own)) / seconds


def _used() -> float:
    """Seconds that all processors together have worked, or were taken away by the machine below (proc(5))."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    """Seconds of this process and of the children that it has seen the end of."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Names the tests that were run again."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            properties: dict[str, object] = dict(getattr(report, "user_properties", ()))
            if times := properties.get(AGAIN):
                terminalreporter.write_line(f"run again on a busy machine, {times} times: {report.nodeid}")


@contextmanager
def one_at_a_time(config: pytest.Config, name: str) -> Generator[None]:
    """Holds the other processes up that come here under the same name."""
    folder = config.rootpath / ".pytest_cache"
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _machine(folder: Path, *, alone: bool) -> Generator[None]:
    folder.mkdir(exist_ok=True)
    with (folder / "door.lock").open("a") as door, (folder / "machine.lock").open("a") as machine:
        # Who waits to be alone holds the door, so that no further test slips in before it.
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield
