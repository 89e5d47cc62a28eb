"""Where a run was interrupted and gone on with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from specdec.runs import strict


@dataclass(frozen=True, slots=True, kw_only=True)
class Seam:
    """The part of a run before one interruption. Every block lies on one side of it, because a torn block is
    measured again for every variant.

    Attributes:
        run: id of the run that was interrupted; its records keep it.
        records: how many of its records stand, warm-up included; they come first in ``records.jsonl``.
        block: the first block that was measured after the seam.
        set_aside: measured requests that were asked again, because their block was torn; they are left in the
            interrupted run's own folder.
        ended_utc: when it was interrupted, ISO 8601 with Z.
        problem: what ended it.
        environment: machine, versions and engine before the seam.
    """

    __pydantic_config__ = strict.CONFIG

    run: str
    records: int
    block: int
    set_aside: int
    ended_utc: str
    problem: str
    environment: dict[str, Any]


def earlier_runs(seams: Iterable[Seam]) -> frozenset[str]:
    """Ids of the runs that a resumed run goes on with."""
    return frozenset(seam.run for seam in seams)
