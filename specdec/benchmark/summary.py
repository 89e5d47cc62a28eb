"""A run in a few medians, to see at once whether it went well. The comparison is ``specdec.analysis``'s
business.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from specdec.metrics import ALL, OF_RUN
from specdec.metrics.objective import Objective, objective_of
from specdec.runs.manifest import RunManifest
from specdec.runs.record import RECORDS, RequestRecord, read_records

_TOTAL = None
"""In place of a test case: all of them."""


def summarize(manifest: RunManifest, folder: Path) -> dict[str, Any]:
    """Medians of every metric per variant and test case, outcomes, and where the numbers come from. Plain
    data.

    ``variants.<name>.test_cases.<test case>`` maps metric names to medians over ``ok`` requests, and
    ``variants.<name>.all`` those of all test cases together. A metric that no request yields is
    absent. Raises ValueError for a records file that is not one.
    """
    numbers: dict[tuple[str, str | None], list[_Numbers]] = {}
    outcomes: dict[tuple[str, str | None], Counter[str]] = {}
    sources: dict[str, Counter[str]] = {}
    errors: dict[str, Counter[str]] = {}
    for record in read_records(folder / RECORDS):
        if record.warmup:
            continue
        for case in (record.test_case, _TOTAL):
            outcomes.setdefault((record.variant, case), Counter())[record.outcome] += 1
        if record.outcome == "ok":
            sources.setdefault(record.variant, Counter())[record.token_source] += 1
        else:
            errors.setdefault(record.variant, Counter())[f"{record.outcome}: {record.error}"] += 1
        for case in (record.test_case, _TOTAL):
            numbers.setdefault((record.variant, case), []).append(_Numbers(record))
    objective = objective_of(manifest.configuration)
    variants: dict[str, Any] = {}
    order = list(manifest.variants)
    for variant, case in sorted(outcomes, key=lambda pair: order.index(pair[0])):
        entry = variants.setdefault(
            variant,
            {
                "token_sources": dict(sources.get(variant, {})),
                "server_counters": manifest.server_counters.get(variant),
                "errors": dict(errors.get(variant, Counter[str]()).most_common(5)),
                "test_cases": {},
            },
        )
        medians = {
            "outcomes": dict(outcomes[variant, case]),
            **_medians(numbers.get((variant, case), []), objective),
        }
        if case is _TOTAL:
            entry["all"] = medians
        else:
            entry["test_cases"][case] = medians
    return {"run": manifest.run, "status": manifest.status, "problem": manifest.problem, "variants": variants}


class _Numbers:
    """What the summary needs of one record; its chunks and text are not kept, so that a long run can be
    summarized.
    """

    def __init__(self, record: RequestRecord) -> None:
        self.values = {metric.name: metric.of(record) for metric in ALL} if record.outcome == "ok" else {}
        times = record.chunk_times[-1:]
        # The metrics of a run read no more than this of a record.
        self.record = RequestRecord(
            **{name: getattr(record, name) for name in _KEPT},
            chunk_times=record.chunk_times[:1] + times,
            chunk_tokens=_ends(record),
        )


_KEPT = (
    "run",
    "lane",
    "variant",
    "test_case",
    "prompt_class",
    "prompt",
    "repeat",
    "block",
    "warmup",
    "concurrency",
    "sent_utc",
    "sent",
    "outcome",
    "output_tokens",
)


def _ends(record: RequestRecord) -> tuple[int, ...] | None:
    return None if not record.chunk_tokens else (record.chunk_tokens[0], record.chunk_tokens[-1])


def _medians(numbers: list[_Numbers], objective: Objective | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in ALL:
        values = [value for number in numbers if (value := number.values.get(metric.name)) is not None]
        if values:
            found[metric.name] = median(values)
    for metric in OF_RUN:
        value = metric.of([number.record for number in numbers], objective)
        if value is not None:
            found[metric.name] = value
    return found
