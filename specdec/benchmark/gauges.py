"""What a server's ``/metrics`` page says of its load: requests it works on, requests that wait, time in queue
and prefill.
"""

from __future__ import annotations

from dataclasses import dataclass

from specdec.benchmark.metrics_page import samples

_RUNNING = ("vllm:num_requests_running", "llamacpp:requests_processing")
_WAITING = ("vllm:num_requests_waiting", "llamacpp:requests_deferred")
_QUEUE = "vllm:request_queue_time_seconds"
_PREFILL = "vllm:request_prefill_time_seconds"


@dataclass(frozen=True, slots=True)
class Gauges:
    """One reading, summed over the engines of a server. None where the page does not say.

    Attributes:
        running, waiting: requests at that moment.
        queue, prefill: (seconds, requests) since the server started.
    """

    running: float | None
    waiting: float | None
    queue: tuple[float, float] | None
    prefill: tuple[float, float] | None


def parse(page: str) -> Gauges | None:
    """Reads a Prometheus text page; None if it tells nothing of the load."""
    sums: dict[str, float] = {}
    for sample in samples(page, *_RUNNING, *_WAITING, _QUEUE, _PREFILL):
        sums[sample.name] = sums.get(sample.name, 0.0) + sample.value

    def first(names: tuple[str, ...]) -> float | None:
        return next((sums[name] for name in names if name in sums), None)

    def histogram(name: str) -> tuple[float, float] | None:
        total, count = sums.get(f"{name}_sum"), sums.get(f"{name}_count")
        return None if total is None or count is None else (total, count)

    gauges = Gauges(first(_RUNNING), first(_WAITING), histogram(_QUEUE), histogram(_PREFILL))
    return None if gauges == Gauges(None, None, None, None) else gauges


def mean_between(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    """Mean seconds per request of a histogram between two readings; None where no request was counted."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])
