"""How far a run came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from specdec.runs.manifest import REQUESTS, RunManifest
from specdec.runs.record import RequestRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run came.

    Attributes:
        ended: requests that ended, warm-up included.
        planned: requests of the whole plan; None where that was not fixed beforehand or is not known.
    """

    ended: int
    planned: int | None

    def words(self) -> str:
        """For example ``31 of 96 requests have ended (32%)``."""
        if not self.planned:
            return f"{self.ended} requests have ended"
        share = min(1.0, self.ended / self.planned)
        return f"{self.ended} of {self.planned} requests have ended ({share:.0%})"

    @property
    def missing(self) -> int | None:
        """Requests that the plan still has."""
        return None if self.planned is None else max(0, self.planned - self.ended)


def progress_of(manifest: RunManifest, records: Sequence[RequestRecord]) -> Progress | None:
    """What a run that is not complete has of its plan; None for a complete one.

    Args:
        manifest: of the run, or of its start.
        records: of our own client, the self-check's among them.
    """
    if manifest.status == "complete":
        return None
    # What only keeps a load up is no part of the plan.
    ended = sum(not record.warmup or record.block < 0 for record in records)
    settings = manifest.environment.get("load")
    planned = cast("dict[str, Any]", settings).get(REQUESTS) if isinstance(settings, dict) else None
    return Progress(ended=ended, planned=planned if isinstance(planned, int) and planned > 0 else None)
