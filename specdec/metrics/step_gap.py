"""Step gap: time between the steps a user sees text appear in."""

from __future__ import annotations

from operator import sub

from specdec.metrics.arrivals import came_at_once
from specdec.metrics.definition import Metric
from specdec.metrics.steps import step_starts
from specdec.runs.record import RequestRecord


def step_gaps(record: RequestRecord) -> list[float]:
    """Seconds from the first chunk of each step to that of the next."""
    places, times = step_starts(record), record.chunk_times
    starts = times if len(places) == len(times) else [times[j] for j in places]
    return list(map(sub, starts[1:], starts))


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
    gaps = step_gaps(record)
    return sum(gaps) / len(gaps) if gaps else None


STEP_GAP = Metric(
    name="StepGap",
    symbol="step gap",
    unit="Seconds",
    formula="mean over steps of t_s - t_(s-1)",
    source="docs/metrics.md",
    better="smaller",
    of=step_gap,
)
