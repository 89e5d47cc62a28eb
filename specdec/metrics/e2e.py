"""E2E: time to the last token."""

from __future__ import annotations

from specdec.metrics.definition import Metric
from specdec.runs.record import RequestRecord


def e2e(record: RequestRecord) -> float | None:
    """Seconds from sending to the last chunk that brought tokens: ``t_m``. None when none came."""
    return record.chunk_times[-1] if record.chunk_times else None


E2E = Metric(
    name="EndToEndLatency",
    symbol="E2E",
    unit="Seconds",
    formula="t_m",
    source="docs/metrics.md",
    better="smaller",
    of=e2e,
)
