"""Goodput: requests per second that keep a service level objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec.metrics.e2e import e2e
from specdec.metrics.of_run import RunMetric, loaded_seconds
from specdec.metrics.tpot import tpot
from specdec.metrics.ttft import ttft
from specdec.runs.record import RequestRecord


@dataclass(frozen=True, slots=True)
class Objective:
    """Limits that a good request keeps, seconds; None does not limit.

    Attributes:
        ttft: most time to first token.
        tpot: most time per output token.
        e2e: most time to the last token.
    """

    ttft: float | None = 1.0
    tpot: float | None = 0.05
    e2e: float | None = None

    def kept(self, record: RequestRecord) -> bool:
        """Whether a request keeps every limit. One that failed, or whose metric is not known, does not."""
        limits = ((self.ttft, ttft), (self.tpot, tpot), (self.e2e, e2e))
        values = [(limit, of(record)) for limit, of in limits if limit is not None]
        return record.outcome == "ok" and all(value is not None and value <= limit for limit, value in values)


DEFAULT_OBJECTIVE = Objective()
"""First token within a second and 20 tokens per second after it: about four times reading speed."""


def goodput(records: Sequence[RequestRecord], objective: Objective = DEFAULT_OBJECTIVE) -> float | None:
    """Requests that keep the objective, per second in which any was in flight. None if none was.

    Failed requests are to be among the records: they count as not good.
    """
    seconds = loaded_seconds(records)
    return sum(objective.kept(record) for record in records) / seconds if seconds > 0 else None


GOODPUT = RunMetric(
    name="Goodput",
    symbol="goodput",
    unit="Count/Second",
    formula="requests with TTFT <= 1 s and TPOT <= 50 ms / seconds with a request in flight",
    source="DistServe (Zhong et al., 2024), section 2, for the idea; the limits are this project's default",
    better="larger",
    of=goodput,
)
