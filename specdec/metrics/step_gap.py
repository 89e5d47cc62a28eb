"""Step gap: time between the steps a user sees text appear in."""

from __future__ import annotations

from specdec.metrics.arrivals import came_at_once
from specdec.metrics.definition import Metric
from specdec.metrics.steps import step_starts
from specdec.runs.record import RequestRecord


def step_gap(record: RequestRecord) -> float | None:
    """Mean seconds between steps: ``(t_s - t_1) / (s - 1)`` over s steps. None with fewer than two, and where
    the answer came at once.

    This is what many tools call inter-token latency. With speculation a step yields several tokens, so it
    says how smoothly text appears and not how fast tokens come.
    """
    if came_at_once(record):
        return None
    if record.chunk_steps:
        steps = record.chunk_steps[-1] - record.chunk_steps[0]
        return (record.chunk_times[-1] - record.chunk_times[0]) / steps if steps > 0 else None
    places, times = step_starts(record), record.chunk_times
    return (times[places[-1]] - times[0]) / (len(places) - 1) if len(places) > 1 else None


STEP_GAP = Metric(
    name="StepGap",
    symbol="step gap",
    unit="Seconds",
    formula="mean over steps of t_s - t_(s-1)",
    source="docs/metrics.md",
    better="smaller",
    of=step_gap,
)
