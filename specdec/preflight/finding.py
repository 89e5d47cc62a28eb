"""What a check found, and what it needs to look."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment
    from specdec.pricing.workload import Workload

Level = Literal["ok", "warning", "blocker", "unknown"]
"""``ok``: as it must be. ``warning``: the deployment goes through, but read this. ``blocker``: it would fail.
``unknown``: could not be found out; never to be read as any of the others."""

LEVELS: tuple[Level, ...] = ("blocker", "unknown", "warning", "ok")
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: name of the check, one word or two.
        level: see ``Level``.
        what: what was found, one sentence.
        remedy: command or console path that mends it; None where nothing needs mending.
        denied: IAM action that was refused, where that is why the level is ``unknown``.
    """

    check: str
    level: Level
    what: str
    remedy: str | None = None
    denied: str | None = None

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class Scope:
    """What every check is given.

    Attributes:
        experiment: the experiment.
        region: the region looked at.
        clients: boto3 clients of that region.
        account: account number of the caller.
        caller: ARN of the caller.
        workload: what the benchmark sends, for what its metrics cost.
        today: the day the checks run, for the support of a Kubernetes version.
        hours: how long the nodes are to run, for what it costs.
    """

    experiment: Experiment
    region: str
    clients: Clients
    account: str
    caller: str
    workload: Workload
    today: date
    hours: float = 8.0

    @property
    def stack(self) -> str:
        """Name of the experiment's stack in this region."""
        return self.experiment.stack_name(self.region)
