"""The outcome of one load of a run, per variant: whether it was finished, and whether its times can be
trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specdec.runs import strict

PointEnd = Literal["complete", "time", "saturated", "settled", "interrupted"]
"""``complete``: every request of the plan was sent. ``time``: the cap on time per point passed first.
``saturated``: not begun or not gone on with, since no variant's throughput grew any more at a lower load.
``settled``: further visits would have made what was measured no surer to speak of. ``interrupted``: the run
ended."""

LATE = 0.005
"""Seconds by which the client may be late at one wake-up in a hundred, where it takes the times of arrival
itself. Above it the times of a point say more about the client's machine than about the server: it is more
than the client's own error of 3 ms in TTFT."""

LATE_TURN = 0.25
"""The same where the kernel takes the times: the client then stays exact, but a place that is left empty for
so long between two requests makes the load less than it says."""

BLURRED = 0.01
"""Share of the reads that may hold several parts of a stream because they came late, where the kernel takes
the times: it knows that of the last part alone."""

LATE_SEND = 0.05
"""Seconds by which a request of an open loop may be sent late, as a share of the mean gap between arrivals or
in seconds, whichever is less: a later one changes the arrivals that were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One load of one variant.

    Attributes:
        variant: variant name.
        load: requests in flight, or requests per second.
        unit: which of the two.
        planned: measured requests of the plan.
        sent: of these, the ones that were sent.
        end: see ``PointEnd``.
        seconds: that the variant was loaded at this point, fillers included.
        loop_lag_seconds: how late the client's event loop woke up, 99th percentile; None if too short to
            tell.
        blurred: share of the reads that came late and held several parts of a stream; None where the kernel
            does not tell times of arrival.
        latest_send_seconds: most that a request of an open loop was sent late; None in a closed loop.
        running, waiting: mean requests that the server worked on, and kept waiting, by its own gauges; None
            where it has none.
        queue_seconds, prefill_seconds: mean per request by the server's own histograms; None where it has
            none.
    """

    __pydantic_config__ = strict.CONFIG

    variant: str
    load: float
    unit: Literal["in flight", "per second"]
    planned: int
    sent: int
    end: PointEnd
    seconds: float
    loop_lag_seconds: float | None = None
    blurred: float | None = None
    latest_send_seconds: float | None = None
    running: float | None = None
    waiting: float | None = None
    queue_seconds: float | None = None
    prefill_seconds: float | None = None

    @property
    def late(self) -> bool:
        """Whether the client itself was too late for this point's times to be trusted."""
        lag, send = self.loop_lag_seconds or 0.0, self.latest_send_seconds or 0.0
        gap = 1 / self.load if self.unit == "per second" and self.load > 0 else 1.0
        if self.blurred is not None and (self.blurred > BLURRED or lag > LATE_TURN):
            return True
        return (self.blurred is None and lag > LATE) or send > LATE_SEND * max(1.0, gap)
