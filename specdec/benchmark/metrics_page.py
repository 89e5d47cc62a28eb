"""The samples of a server's ``/metrics`` page, in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Sample(NamedTuple):
    """One line of the page: name, labels and value."""

    name: str
    labels: dict[str, str]
    value: float


def samples(page: str, *beginnings: str) -> Iterator[Sample]:
    """The samples whose names begin with one of these. Everything after a malformed sample is left out."""
    from prometheus_client.parser import text_string_to_metric_families

    # A page has a thousand lines, the parser takes 0.1 ms for each, and a run is being timed meanwhile.
    wanted = "".join(f"{line}\n" for line in page.splitlines() if line.startswith(beginnings))
    try:
        for family in text_string_to_metric_families(wanted):
            for sample in family.samples:
                yield Sample(sample.name, sample.labels, sample.value)
    except (ValueError, IndexError, KeyError):
        return
