"""A run in a few medians, to see at once whether it went well. The comparison is ``specdec.analysis``'s
business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from specdec.metrics import ALL, OF_RUN, TOKENS_PER_STEP
from specdec.metrics.arrivals import came_at_once, first_arrival
from specdec.metrics.objective import Objective, objective_of
from specdec.metrics.tokens_per_step import joins_steps
from specdec.metrics.tpot import tpot
from specdec.runs.manifest import RunManifest
from specdec.runs.record import RECORDS, SELF_CHECK, TOTAL_ONLY, RequestRecord, read_records

_TOTAL = None
"""In place of a test case: all of them."""


def summarize(manifest: RunManifest, folder: Path) -> dict[str, Any]:
    """Medians of every metric per variant and test case, outcomes, and where the numbers come from. Plain
    data.

    ``variants.<name>.test_cases.<test case>`` maps metric names to medians over ``ok`` requests, and
    ``variants.<name>.all`` those of all test cases together. A metric that no request yields is
    absent. In a run of several loads the keys of ``test_cases`` name the load too (``json at 4``), and
    ``all at 4`` stands among them instead of ``all``. Raises ValueError for a records file that is not one.
    """
    several = bool(manifest.points)
    numbers: dict[tuple[str, str | None], list[_Numbers]] = {}
    outcomes: dict[tuple[str, str | None], Counter[str]] = {}
    sources: dict[str, Counter[str]] = {}
    errors: dict[str, Counter[str]] = {}
    notes: dict[str, Counter[str]] = {}
    for record in read_records(folder / RECORDS):
        if record.lane == SELF_CHECK or (record.warmup and (record.block < 0 or not several)):
            continue
        at = f" at {record.load:g}" if several else ""
        cases = (f"{record.test_case}{at}", f"all{at}" if several else _TOTAL)
        for case in cases:
            numbers.setdefault((record.variant, case), []).append(_Numbers(record))
        if record.warmup:
            continue
        for case in cases:
            outcomes.setdefault((record.variant, case), Counter())[record.outcome] += 1
        if record.outcome == "ok":
            sources.setdefault(record.variant, Counter())[record.token_source] += 1
            notes.setdefault(record.variant, Counter()).update(_notes(record))
        else:
            errors.setdefault(record.variant, Counter())[f"{record.outcome}: {record.error}"] += 1
    objective = objective_of(manifest.configuration)
    joined = _joins_steps(manifest, numbers)
    variants: dict[str, Any] = {}
    order = list(manifest.variants)
    for variant, case in sorted(outcomes, key=lambda pair: order.index(pair[0])):
        entry = variants.setdefault(
            variant,
            {
                "token_sources": dict(sources.get(variant, {})),
                "server_counters": manifest.server_counters.get(variant),
                "errors": dict(errors.get(variant, Counter[str]()).most_common(5)),
                "notes": dict(notes.get(variant, Counter[str]()).most_common(5)),
                "test_cases": {},
            },
        )
        medians = {
            "outcomes": dict(outcomes[variant, case]),
            **_medians(numbers.get((variant, case), []), objective),
        }
        if joined:
            medians.pop(TOKENS_PER_STEP.name, None)
        if case is _TOTAL:
            entry["all"] = medians
        else:
            entry["test_cases"][case] = medians
    return {"run": manifest.run, "status": manifest.status, "problem": manifest.problem, "variants": variants}


def _joins_steps(manifest: RunManifest, numbers: Mapping[tuple[str, str | None], Sequence[_Numbers]]) -> bool:
    """Whether the plain variant seems to emit several tokens a step beside others: then its server joins
    steps, no step can be told, and the report says so too.
    """
    plain = [name for name, facts in manifest.variants.items() if facts.get("role") == "baseline"]
    if len(plain) == len(manifest.variants):
        return False
    values = [
        value
        for (variant, _), found in numbers.items()
        if variant in plain
        for each in found
        if (value := each.values.get(TOKENS_PER_STEP.name)) is not None
    ]
    return joins_steps(values)


def _notes(record: RequestRecord) -> Iterator[str]:
    """What kept the client from reading this answer as it was made."""
    if record.note:
        yield record.note
    if record.unread:
        yield f"counted and not read: {record.unread}"
    if record.buffer_bytes:
        yield f"handed on in buffers of {record.buffer_bytes} bytes: something on the way holds tokens back"
    elif came_at_once(record):
        yield "the stream came all at once, so there is no TPOT"


class _Numbers:
    """What the summary needs of one record; its chunks and text are not kept, so that a long run can be
    summarized.
    """

    def __init__(self, record: RequestRecord) -> None:
        counts = record.outcome == "ok" and not record.warmup
        self.values = {metric.name: metric.of(record) for metric in ALL} if counts else {}
        times, tokens = record.chunk_times, record.chunk_tokens
        if not record.warmup:
            # The metrics of a run read no more than this; of a request that held a load up, when its tokens
            # came.
            times, tokens = ((times[0], times[-1]) if times else ()), _ends(record)
        self.record = RequestRecord(
            **{name: getattr(record, name) for name in _KEPT},
            chunk_times=times,
            chunk_tokens=tokens,
            token_source=TOTAL_ONLY,
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
    """Tokens at the end of the first arrival and at the last, where TPOT is known."""
    value = tpot(record)
    if value is None:
        return None
    if record.chunk_tokens is None:
        return 1, record.output_tokens or 0
    return record.chunk_tokens[first_arrival(record)], record.chunk_tokens[-1]


def _medians(numbers: list[_Numbers], objective: Objective | None) -> dict[str, float]:
    medians: dict[str, float] = {}
    for metric in ALL:
        values = [value for number in numbers if (value := number.values.get(metric.name)) is not None]
        if values:
            medians[metric.name] = median(values)
    for metric in OF_RUN:
        value = metric.of([number.record for number in numbers], objective)
        if value is not None:
            medians[metric.name] = value
    return medians
