"""Servers as child processes: started apart from the terminal, waited for, watched, and ended with all they
started.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from specdec import atomic
from specdec.errors import EnvironmentFault
from specdec.rehearsal.engines import ServiceDiedError

_PATIENCE_SECONDS = 3.0
"""How long a server may take to end by itself when asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How one server is started.

    Attributes:
        name: variant name, also the name of its log.
        command: program and arguments.
        environment: of the process; None for this one's.
        url: base URL it will have; None if the server chooses its port and its log tells the address after
            ``announces``.
        announces: what stands before the address in the log.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] | None = None
    url: str | None = None
    announces: str = "listening on "


@dataclass(slots=True)
class _Server:
    launch: Launch
    process: subprocess.Popen[bytes]
    log: Path
    url: str | None

    def last_words(self) -> str:
        """The last line of the log that says something, without the clutter of a traceback."""
        lines = [
            line.strip()
            for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            if line.strip()
        ]
        errors = [line for line in lines if "error" in line.lower() or "couldn't" in line.lower()]
        return (errors or lines or ["it printed nothing"])[-1][:300]

    def ended(self) -> str | None:
        """How it ended, in words; None while it runs."""
        status = self.process.poll()
        if status is None:
            return None
        return (
            f"was ended by signal {signal.Signals(-status).name}"
            if status < 0
            else f"ended with status {status}"
        )


class Servers:
    """Child processes that serve. Leaving the context ends them all.

    Each is the leader of a session of its own, so that Ctrl-C reaches only the command that started it, which
    then ends them in order. A guardian process ends them if that command is killed; ``outlive`` does without,
    for servers that are to stay.
    """

    def __init__(self, *, outlive: bool = False) -> None:
        self._outlive = outlive
        self._servers: list[_Server] = []
        self._guardian: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(
        self, launches: Sequence[Launch], logs: Path, *, seconds: float
    ) -> Iterator[tuple[Launch, str, int]]:
        """Starts all servers at once and gives each, in order, as soon as it answers: launch, base URL,
        process id.

        Raises:
            EnvironmentFault: the folder of the logs cannot be made; or one ends or does not answer in time,
                and all are ended.
        """
        try:
            logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise atomic.unwritable(logs, error) from None
        try:
            for launch in launches:
                self._spawn(launch, logs / f"{launch.name}.log")
            deadline = time.monotonic() + seconds
            for server in self._servers:
                yield server.launch, self._wait(server, deadline, seconds), server.process.pid
        except BaseException:
            self.stop()
            raise

    def watch(self) -> None:
        """Raises ServiceDiedError if a server is no longer there."""
        for server in self._servers:
            how = server.ended()
            if how is not None:
                raise ServiceDiedError(
                    f"The server of {server.launch.name} (process {server.process.pid}) {how}:"
                    f" {server.last_words()}",
                    remedy=f"Its log is {server.log}",
                )

    def stop(self) -> None:
        """Ends all servers and everything they started."""
        servers, self._servers = self._servers, []
        running = [server for server in servers if server.process.poll() is None]
        for number, patience in ((signal.SIGTERM, _PATIENCE_SECONDS), (signal.SIGKILL, 10.0)):
            deadline = time.monotonic() + patience
            for server in servers:
                # The leader may be gone and its children not, so the group is signalled in any case.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(server.process.pid, number)
            for server in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.process.wait(max(0.0, deadline - time.monotonic()))
        guardian, self._guardian = self._guardian, None
        if guardian is not None:
            with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
                guardian.communicate("".join(f"drop {server.process.pid}\n" for server in servers), timeout=5)

    def _spawn(self, launch: Launch, log: Path) -> None:
        with log.open("wb") as output:
            try:
                process = subprocess.Popen(
                    list(launch.command),
                    env=None if launch.environment is None else dict(launch.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise EnvironmentFault(f"Cannot start the server of {launch.name}: {error}") from None
        self._servers.append(_Server(launch, process, log, launch.url))
        if not self._outlive:
            self._guard(process.pid)

    def _guard(self, pid: int) -> None:
        if self._guardian is None:
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__).with_name("guardian.py"))],
                stdin=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        if self._guardian.stdin is not None:
            self._guardian.stdin.write(f"add {pid}\n")
            self._guardian.stdin.flush()

    def _wait(self, server: _Server, deadline: float, seconds: float) -> str:
        while time.monotonic() < deadline:
            how = server.ended()
            if how is not None:
                raise EnvironmentFault(
                    f"The server of {server.launch.name} {how} before it answered: {server.last_words()}",
                    remedy=f"Its log is {server.log}",
                )
            url = server.url or _announced(server)
            if url is not None and _answers(url):
                server.url = url
                return url
            time.sleep(0.1)
        raise EnvironmentFault(
            f"The server of {server.launch.name} did not answer within {seconds:.0f} s:"
            f" {server.last_words()}",
            remedy=f"Its log is {server.log}",
        )


def _announced(server: _Server) -> str | None:
    for line in server.log.read_text(encoding="utf-8", errors="replace").splitlines():
        _, announcement, address = line.partition(server.launch.announces)
        if announcement and address.startswith("http://"):
            return address.split()[0]
    return None


def _answers(url: str) -> bool:
    """Whether the server says it is healthy. vLLM and llama.cpp both answer /health with 200 when the model
    is loaded.
    """
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
