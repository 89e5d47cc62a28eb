"""Engines of the rehearsal: they provide the two services that replace those on the accelerator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from specdec.errors import SpecdecError

if TYPE_CHECKING:
    from specdec.experiment.fields import Variant

Progress = Callable[[str], None]
"""Told what is being done now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running server of one variant.

    Attributes:
        variant: variant name.
        url: base URL, without ``/v1``.
        model: name to ask for; None if the server is to be asked.
        pid: process id where it is ours, also its process group's.
        mode: how it really speculates, which need not be the variant's mode; None for a plain one or where
            not known.
        draft: what its proposals come from.
        window: most tokens it proposes per step.
    """

    variant: str
    url: str
    model: str | None = None
    pid: int | None = None
    mode: str | None = None
    draft: str | None = None
    window: int | None = None


class ServiceDiedError(SpecdecError):
    """A server that was started here ended by itself."""


class Engine(Protocol):
    """Starts a server for every variant. ``stop`` leaves nothing behind, whatever happened before.

    Attributes:
        name: as the command line knows it.
        limits: what its services cannot show about the experiment, a sentence each.
    """

    name: str
    limits: tuple[str, ...]

    def check(self) -> None:
        """Finds out what is missing before anything is started.

        Raises:
            EnvironmentFault: a package, space on the disk or a free port is missing.
        """
        ...

    def prepare(self, on_progress: Progress) -> None:
        """Makes what the servers need on disk, once per machine. Starts no process that keeps running.

        Raises:
            EnvironmentFault: it cannot be made here.
        """
        ...

    def start(self, variants: Sequence[Variant], logs: Path, on_progress: Progress) -> tuple[Service, ...]:
        """Starts the servers and returns when all of them answer.

        Args:
            variants: the variants that are to be served, in this order.
            logs: folder for what the servers say.
            on_progress: see ``Progress``.

        Raises:
            EnvironmentFault: one does not start; none is left running.
        """
        ...

    def watch(self) -> None:
        """Returns while every server that was started is alive.

        Raises:
            ServiceDiedError: one ended; the message has its last words.
        """
        ...

    def facts(self) -> dict[str, Any]:
        """What a run's manifest says of the engine: name, versions, weights, method, threads."""
        ...

    def stop(self) -> None:
        """Ends every server that was started here."""
        ...
