"""An engine whose servers are golden ones, and a rehearsal without the cloud: what is left is what these
tests are about.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec.experiment.reading import load
from specdec.rehearsal.emulator import CHECKOUT, EmbeddedAws
from specdec.rehearsal.engines import Progress, Service
from specdec.rehearsal.engines.processes import Launch, Servers
from specdec.rehearsal.run import Rehearsal
from specdec.rehearsal.settings import Settings

if TYPE_CHECKING:
    from specdec.experiment.fields import Variant


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class GoldenEngine:
    """Golden servers as child processes; ``command`` replaces what is started, ``step_ms`` their speed."""

    name = "golden"
    limits: tuple[str, ...] = ()

    def __init__(
        self, *, step_ms: float = 1, command: tuple[str, ...] | None = None, outlive: bool = False
    ) -> None:
        self._servers = Servers(outlive=outlive)
        self._command = command
        self._step_ms = step_ms
        self.services: tuple[Service, ...] = ()

    def check(self) -> None:
        pass

    def prepare(self, on_progress: Progress) -> None:
        on_progress("nothing to make")

    def start(self, variants: Sequence[Variant], logs: Path, on_progress: Progress) -> tuple[Service, ...]:
        launches: list[Launch] = []
        for variant in variants:
            port = free_port()
            speed = ("--tokens-per-step", "4") if variant.speculative else ()
            golden = (
                sys.executable,
                "-m",
                "specdec",
                "golden",
                "--port",
                str(port),
                "--ttft-ms",
                "2",
                "--step-ms",
                str(self._step_ms),
                *speed,
            )
            launches.append(
                Launch(name=variant.name, command=self._command or golden, url=f"http://127.0.0.1:{port}")
            )
        self.services = tuple(
            Service(variant=launch.name, url=url, pid=pid)
            for launch, url, pid in self._servers.start(launches, logs, seconds=30)
        )
        return self.services

    def watch(self) -> None:
        self._servers.watch()

    def facts(self) -> dict[str, Any]:
        return {"name": self.name}

    def stop(self) -> None:
        self._servers.stop()


class Grounded(Rehearsal):
    """A rehearsal that neither deploys nor publishes nor destroys."""

    def _deploy(self, aws: EmbeddedAws, state: Path) -> Any:
        return None

    def _publish(self, aws: EmbeddedAws) -> None:
        pass

    def _destroy(self, aws: EmbeddedAws, cdk: Any) -> None:
        pass


def settings(runs: Path, **more: Any) -> Settings:
    path = CHECKOUT / "experiment.toml"
    return Settings(experiment=load(path), path=path, runs=runs, **more)
