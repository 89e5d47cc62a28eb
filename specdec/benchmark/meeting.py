"""Synchronizes several clients of one run: above the load of one machine, each sends a share of the plan.

Member 0 is the meeting point: the others connect to it, and no member starts or ends a turn before all of
them do. At the end it collects their records. It does not decide which client runs where: in a cluster an
Indexed Job does, whose pods know their index (``JOB_COMPLETION_INDEX``).

The members speak JSON lines over TCP: ``{"index", "of", "plan"}`` to join, then ``{"step", "value"}`` for
each step, answered by ``{"step", "value"}`` with member 0's value once all have come to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from specdec.errors import BadInputError, EnvironmentFault, Mistake, SpecdecError
from specdec.runs.shares import share_folder

JOIN_SECONDS = 1800.0
"""Within which all members must have come: pods may wait for a node and install their packages first."""

RETRY_SECONDS = 1.0

DELIVERY_SECONDS = 300.0
"""Within which member 0 takes the records of all in. Kubernetes gives a pod that it ends less."""

_LINE = 1 << 16
_PIECE = 1 << 20


class MemberLostError(SpecdecError):
    """A member is gone, so that the load is no longer what it says; the run ends."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of a plan this client sends.

    Attributes:
        index: 0-based.
        of: clients in all.
        meet: ``host:port`` where member 0 listens; None for a client alone.
        join_seconds: within which all must have come.
    """

    index: int = 0
    of: int = 1
    meet: str | None = None
    join_seconds: float = JOIN_SECONDS

    @property
    def together(self) -> bool:
        """Whether there are others."""
        return self.of > 1

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the meeting."""
        host, _, port = (self.meet or "").rpartition(":")
        return host.strip("[]"), int(port)

    def mistakes(self) -> list[Mistake]:
        """What is wrong with it."""
        mistakes: list[Mistake] = []
        if self.of < 1:
            mistakes.append(Mistake("--of", self.of, "is less than 1", "Give the number of clients"))
        elif not 0 <= self.index < self.of:
            remedy = f"Count from 0 to {self.of - 1}"
            mistakes.append(Mistake("--index", self.index, f"is not one of {self.of} clients", remedy))
        host, _, port = (self.meet or "").rpartition(":")
        if self.of > 1 and not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            remedy = "Give HOST:PORT of the client with index 0 to all of them"
            mistakes.append(Mistake("--meet", self.meet, "is no place to meet", remedy))
        return mistakes


ALONE = Share()
"""A client that shares its plan with nobody."""


class Meeting(Protocol):
    """What a run needs of the others."""

    async def all_at(self, step: str, value: str = "") -> str:
        """Returns member 0's value once every member has come to this step.

        Raises:
            MemberLostError: one is gone.
        """
        ...

    async def deliver(self, folder: Path, names: tuple[str, ...], *, complete: bool) -> None:
        """Sends files of this share's folder to member 0, which collects those of all remaining members.

        Args:
            folder: of this share.
            names: of the files.
            complete: whether this client came to the end of the run.
        """
        ...


class Unaccompanied:
    """A client without others."""

    async def all_at(self, step: str, value: str = "") -> str:
        """See ``Meeting``."""
        return value

    async def deliver(self, folder: Path, names: tuple[str, ...], *, complete: bool) -> None:
        """See ``Meeting``."""


@dataclass(slots=True)
class _Guest:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Host:
    """Member 0."""

    def __init__(self, share: Share, plan: str, run: str) -> None:
        self._share = share
        self._plan = plan
        self._run = run
        self._guests: dict[int, _Guest] = {}
        self._came = asyncio.Event()
        self._steps: dict[str, dict[int, str]] = {}
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._leaving: dict[int, asyncio.Future[bool]] = {}
        self._lost: int | None = None
        self._over = False
        self._reading: list[asyncio.Task[None]] = []

    async def open(self) -> str:
        """Returns the id of the run once all have joined.

        Raises:
            EnvironmentFault: the address cannot be listened on, or a member did not come in time.
        """
        host, port = self._share.address
        try:
            self._server = await asyncio.start_server(self._join, host, port, limit=_LINE)
        except OSError as error:
            raise EnvironmentFault(
                f"cannot listen on {host}:{port} for the other clients: {error.strerror or error}",
                remedy="Give --meet an address of the machine of index 0, and a free port",
            ) from None
        try:
            async with asyncio.timeout(self._share.join_seconds):
                await self._came.wait()
        except TimeoutError:
            missing = sorted(set(range(1, self._share.of)) - self._guests.keys())
            await self.close()
            raise EnvironmentFault(
                f"index {', '.join(map(str, missing))} of {self._share.of} clients did not come within"
                f" {self._share.join_seconds:g} s",
                remedy="Start all of them, with the same --of, --meet and plan; nothing was measured",
            ) from None
        for index, guest in self._guests.items():
            _send(guest.writer, {"run": self._run})
            self._leaving[index] = asyncio.get_running_loop().create_future()
            self._reading.append(asyncio.create_task(self._read(index, guest)))
        return self._run

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await _line(reader)
        problem = self._refusal(said) if said is not None else "no greeting"
        if said is None or problem is not None:
            _send(writer, {"refused": problem})
            writer.close()
            return
        # A pod that was moved while it waited comes a second time.
        self._guests[said["index"]] = _Guest(reader, writer)
        if len(self._guests) == self._share.of - 1:
            self._came.set()

    def _refusal(self, said: dict[str, Any]) -> str | None:
        index = said.get("index")
        if self._came.is_set():
            return "the run has begun without it"
        if said.get("of") != self._share.of:
            return f"it counts {said.get('of')} clients, and index 0 {self._share.of}"
        if not isinstance(index, int) or not 1 <= index < self._share.of:
            return f"its index {index} is not from 1 to {self._share.of - 1}"
        if said.get("plan") != self._plan:
            return "its plan is another one: give all clients the same options and prompts"
        return None

    async def _read(self, index: int, guest: _Guest) -> None:
        leaving = False
        while not leaving and (said := await _line(guest.reader)) is not None:
            leaving = said.get("step") == _DELIVERY
            if not leaving:
                self._arrive(index, str(said.get("step")), "")
        self._leaving[index].set_result(leaving)
        if not self._over:
            self._lose(index)

    def _arrive(self, index: int, step: str, value: str) -> None:
        came = self._steps.setdefault(step, {})
        came[index] = value
        if len(came) == self._share.of:
            del self._steps[step]
            self._tell({"step": step, "value": came[0]})
            self._waiting.pop(step).set_result(came[0])

    def _lose(self, index: int) -> None:
        self._lost = index
        self._tell({"lost": index})
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_lost(index, self._share.of))

    def _tell(self, said: dict[str, Any]) -> None:
        for guest in self._guests.values():
            if not guest.writer.is_closing():
                _send(guest.writer, said)

    async def all_at(self, step: str, value: str = "") -> str:
        """See ``Meeting``."""
        if self._lost is not None:
            raise _lost(self._lost, self._share.of)
        future = self._waiting[step] = asyncio.get_running_loop().create_future()
        self._arrive(0, step, value)
        return await future

    async def deliver(self, folder: Path, names: tuple[str, ...], *, complete: bool) -> None:
        """See ``Meeting``; the others' files are put into folders beside ``folder``."""
        self._over = True
        if not complete and self._lost is None:
            self._lose(0)
        try:
            async with asyncio.timeout(DELIVERY_SECONDS):
                for index, guest in sorted(self._guests.items()):
                    if await self._leaving[index]:
                        await _take(guest.reader, share_folder(folder.parent, index), names)
        except TimeoutError:
            # Whatever is not here is missing, and the merged run says so.
            return

    async def close(self) -> None:
        """Lets the others go."""
        self._server.close()
        for task in self._reading:
            task.cancel()
        for guest in self._guests.values():
            guest.writer.close()


class Member:
    """One of the others."""

    def __init__(self, share: Share, plan: str) -> None:
        self._share = share
        self._plan = plan
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._lost: int | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> str:
        """Returns the id of the run once all have joined.

        Raises:
            EnvironmentFault: nobody listens there in time.
            BadInputError: member 0 refuses this one.
        """
        host, port = self._share.address
        try:
            async with asyncio.timeout(self._share.join_seconds):
                reader, self._writer = await self._connect(host, port)
                _send(
                    self._writer,
                    {"index": self._share.index, "of": self._share.of, "plan": self._plan},
                )
                said = await _line(reader)
        except TimeoutError:
            raise EnvironmentFault(
                f"the clients did not all meet at {host}:{port} within {self._share.join_seconds:g} s",
                remedy="Start all of them, index 0 among them; nothing was measured",
            ) from None
        if said is None or "run" not in said:
            problem = str((said or {}).get("refused", "index 0 went away"))
            mistake = Mistake("--index", self._share.index, f"is refused by index 0: {problem}", "Mend it")
            raise BadInputError("command line", [mistake])
        self._reading = asyncio.create_task(self._read(reader))
        return str(said["run"])

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            try:
                return await asyncio.open_connection(host, port, limit=_LINE)
            except OSError:
                # Index 0 may start later than this one, and its name be known only then.
                await asyncio.sleep(RETRY_SECONDS)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while (said := await _line(reader)) is not None:
            if "lost" in said:
                self._lose(int(said["lost"]))
                continue
            waiting = self._waiting.pop(str(said.get("step")), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(str(said.get("value")))
        self._lose(0)
        self._ended.set_result(None)

    def _lose(self, index: int) -> None:
        self._lost = index if self._lost is None else self._lost
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_lost(self._lost, self._share.of))

    async def all_at(self, step: str, value: str = "") -> str:
        """See ``Meeting``."""
        if self._lost is not None or self._writer is None:
            raise _lost(self._lost or 0, self._share.of)
        future = self._waiting[step] = asyncio.get_running_loop().create_future()
        _send(self._writer, {"step": step})
        return await future

    async def deliver(self, folder: Path, names: tuple[str, ...], *, complete: bool) -> None:
        """See ``Meeting``."""
        if self._writer is None:
            return
        _send(self._writer, {"step": _DELIVERY})
        # Where index 0 is gone, this share stays where it is.
        with contextlib.suppress(ConnectionError):
            for name in names:
                path = folder / name
                _send(self._writer, {"file": name, "bytes": path.stat().st_size})
                with path.open("rb") as file:
                    while piece := file.read(_PIECE):
                        self._writer.write(piece)
                        await self._writer.drain()
            self._writer.write_eof()
            await self._writer.drain()
            # Index 0 closes when it has all of it.
            await asyncio.wait_for(asyncio.shield(self._ended), DELIVERY_SECONDS)

    async def close(self) -> None:
        """Goes."""
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()


_DELIVERY = "delivery"


async def meet(share: Share, plan: str, run: str, use: Callable[[Meeting, str], Awaitable[Any]]) -> Any:
    """Meets the other clients, runs ``use``, and leaves.

    Args:
        share: of this client.
        plan: what must be the same for all, as a digest.
        run: id of the run, where this is member 0.
        use: gets the meeting and the run's id.

    Raises:
        EnvironmentFault: they did not all come.
        BadInputError: this client's plan is not that of index 0.
    """
    if not share.together:
        return await use(Unaccompanied(), run)
    own = Host(share, plan, run) if share.index == 0 else Member(share, plan)
    try:
        return await use(own, await own.open())
    finally:
        await own.close()


def _lost(index: int, of: int) -> MemberLostError:
    return MemberLostError(
        f"client {index} of {of} (counted from 0) is gone, so that the load is not what it says",
        remedy="Run it again; what was measured until then is kept",
    )


def _send(writer: asyncio.StreamWriter, said: dict[str, Any]) -> None:
    writer.write(json.dumps(said, allow_nan=False).encode() + b"\n")


async def _line(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    try:
        parsed: Any = json.loads(await reader.readuntil(b"\n"))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        return None
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else None


async def _take(reader: asyncio.StreamReader, folder: Path, names: tuple[str, ...]) -> bool:
    """Takes files in; whether all came whole."""
    for name in names:
        said = await _line(reader)
        if said is None or said.get("file") != name:
            return False
        folder.mkdir(parents=True, exist_ok=True)
        left = int(said["bytes"])
        part = folder / f"{name}.part"
        with part.open("wb") as file:
            while left > 0 and (piece := await reader.read(min(left, _PIECE))):
                file.write(piece)
                left -= len(piece)
        if left:
            part.unlink()
            return False
        part.replace(folder / name)
    return True
