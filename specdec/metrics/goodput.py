"""Goodput: requests per second that keep the objective."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.metrics.objective import Objective
from specdec.metrics.of_run import RunMetric, loaded_seconds
from specdec.runs.record import RequestRecord


def goodput(records: Sequence[RequestRecord], objective: Objective | None) -> float | None:
    """Requests that keep the objective, per second in which any was in flight. None if none was, or without
    an objective.

    Failed requests are to be among the records: they count as not good. Unmeasured ones that held a load up
    count for nothing.
    """
    records = [record for record in records if not record.warmup]
    seconds = loaded_seconds(records)
    if objective is None or seconds <= 0:
        return None
    return sum(objective.kept(record) for record in records) / seconds


GOODPUT = RunMetric(
    name="Goodput",
    symbol="goodput",
    unit="Count/Second",
    formula="requests that keep the limits of [objective] / seconds with a request in flight",
    source="DistServe (Zhong et al., 2024), section 2",
    better="larger",
    of=goodput,
)
