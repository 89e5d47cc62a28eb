"""Pairs of requests that differ in the variant alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log

from specdec.runs.record import RequestRecord


@dataclass(frozen=True, slots=True)
class Pair:
    """The same prompt and repeat on a baseline and on another variant."""

    baseline: RequestRecord
    variant: RequestRecord


def pairs(baseline: Iterable[RequestRecord], variant: Iterable[RequestRecord]) -> tuple[Pair, ...]:
    """Pairs by (test case, prompt, repeat), in the order of the baseline's records; requests without a
    partner are left out.
    """
    partners = {_key(record): record for record in variant}
    return tuple(Pair(record, partners[_key(record)]) for record in baseline if _key(record) in partners)


def _key(record: RequestRecord) -> tuple[str, str, int]:
    return record.test_case, record.prompt, record.repeat


def log_ratios(
    paired: Iterable[Pair], metric: Callable[[RequestRecord], float | None]
) -> dict[tuple[str, str], list[float]]:
    """Logarithm of baseline over variant, one per pair, grouped by (test case, prompt).

    Repeats of a prompt at temperature 0 decode the same text and are not independent, so a prompt is one
    cluster. Pairs in which the metric cannot be told, or is not positive, are left out.
    """
    clusters: dict[tuple[str, str], list[float]] = {}
    for pair in paired:
        numerator, denominator = metric(pair.baseline), metric(pair.variant)
        if numerator is None or denominator is None or numerator <= 0 or denominator <= 0:
            continue
        clusters.setdefault((pair.baseline.test_case, pair.baseline.prompt), []).append(
            log(numerator / denominator)
        )
    return clusters
