"""A run in a few medians, to see at once whether it went well. The comparison is ``specdec.analysis``'s
business.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from specdec.benchmark.run import RECORDS
from specdec.metrics import ALL, OF_RUN
from specdec.metrics.objective import Objective, objective_of
from specdec.runs.record import RequestRecord, RunManifest, read_records

_TOTAL = None
"""In place of a test case: all of them."""
_COLUMNS = (
    ("TimeToFirstToken", "TTFT ms", 1000, 1),
    ("TimePerOutputToken", "TPOT ms", 1000, 2),
    ("TokensPerStep", "tokens/step", 1, 2),
    ("StepGap", "step gap ms", 1000, 1),
    ("EndToEndLatency", "E2E s", 1, 2),
    ("SystemThroughput", "tokens/s", 1, 1),
)


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


def as_table(summary: dict[str, Any]) -> str:
    """The summary for a person: one line per test case and variant; what is not known is a dash."""
    heads = ["test case", "variant", "ok", "failed", *(title for _, title, _, _ in _COLUMNS)]
    variants: dict[str, Any] = summary["variants"]
    cases = dict.fromkeys(case for entry in variants.values() for case in entry["test_cases"])
    rows: list[list[str]] = []
    for case in [*cases, _TOTAL]:
        for variant, entry in variants.items():
            values: dict[str, Any] = (
                entry["all"] if case is _TOTAL else entry["test_cases"].get(case, {"outcomes": {}})
            )
            ok = values["outcomes"].get("ok", 0)
            failed = sum(values["outcomes"].values()) - ok
            shown = [
                f"{values[name] * factor:.{digits}f}" if name in values else "-"
                for name, _, factor, digits in _COLUMNS
            ]
            rows.append([case or "all test cases", variant, str(ok), str(failed), *shown])
    lines = [_plain(heads, rows) if not sys.stdout.isatty() else _rich(heads, rows)]
    for variant, entry in variants.items():
        counted = entry["server_counters"]
        server = f"server counters {counted['source']}" if counted else "server counters not reported"
        kinds = ", ".join(f"{source} ({count})" for source, count in entry["token_sources"].items()) or "none"
        lines.append(f"{variant}: token counts from {kinds}; {server}")
        lines.extend(f"{variant}: {count} x {error}" for error, count in entry["errors"].items())
    return "\n".join(lines)


def _plain(heads: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [heads, *rows]
    )


def _rich(heads: list[str], rows: list[list[str]]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, head in enumerate(heads):
        table.add_column(head, justify="left" if column < 2 else "right", no_wrap=column >= 2)
    for row in rows:
        table.add_row(*row)
    console = Console()
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip("\n")
