"""The medians of a run as a table, to see at once whether it went well."""

from __future__ import annotations

import sys
from typing import Any

from specdec import console
from specdec.metrics import E2E, STEP_GAP, SYSTEM_THROUGHPUT, TOKENS_PER_STEP, TPOT, TTFT
from specdec.report.content import MOST_ROWS
from specdec.text import printable

_COLUMNS = (
    (TTFT.name, f"{TTFT.symbol} ms", 1000, 1),
    (TPOT.name, f"{TPOT.symbol} ms", 1000, 2),
    (TOKENS_PER_STEP.name, "tokens/step", 1, 2),
    (STEP_GAP.name, f"{STEP_GAP.symbol} ms", 1000, 1),
    (E2E.name, f"{E2E.symbol} s", 1, 2),
    (SYSTEM_THROUGHPUT.name, "tokens/s", 1, 1),
)
"""Metric, heading, factor and decimals of the columns: as many as a terminal has room for."""


def show(summary: dict[str, Any]) -> None:
    """Prints what ``specdec.benchmark.summary.summarize`` found to stdout."""
    looked_at = console.terminal(sys.stdout)
    console.write(as_table(summary, width=console.width() if looked_at else None) + "\n")


def as_table(summary: dict[str, Any], *, width: int | None = None) -> str:
    """The summary as a table: one line per test case and variant, with a dash for unknown values."""
    variants: dict[str, Any] = summary["variants"]
    cases = list(dict.fromkeys(case for entry in variants.values() for case in entry["test_cases"]))
    rows: list[list[str]] = []
    totals = [None] if all("all" in entry for entry in variants.values()) else []
    folded = bool(width and totals) and len(cases) * len(variants) > MOST_ROWS
    for case in [*([] if folded else cases), *totals]:
        for variant, entry in variants.items():
            values: dict[str, Any] = (
                entry["all"] if case is None else entry["test_cases"].get(case, {"outcomes": {}})
            )
            ok = values["outcomes"].get("ok", 0)
            failed = sum(values["outcomes"].values()) - ok
            shown = [
                f"{values[name] * factor:.{digits}f}" if name in values else "-"
                for name, _, factor, digits in _COLUMNS
            ]
            rows.append([case or "all test cases", variant, str(ok), str(failed), *shown])
    columns = [
        *(console.Column(head, fold=True) for head in ("test case", "variant")),
        *(
            console.Column(head, right=True)
            for head in ("ok", "failed", *(title for _, title, _, _ in _COLUMNS))
        ),
    ]
    lines = [console.table(columns, rows, width=width)]
    if folded:
        lines.append(f"{len(cases)} test cases; specdec report shows each")
    for variant, entry in variants.items():
        counted = entry["server_counters"]
        server = f"server counters {counted['source']}" if counted else "server counters not reported"
        kinds = ", ".join(f"{source} ({count})" for source, count in entry["token_sources"].items()) or "none"
        lines.append(printable(f"{variant}: token counts from {kinds}; {server}"))
        said = [*entry["errors"].items(), *entry["notes"].items()]
        lines.extend(printable(f"{variant}: {count} x {what}") for what, count in said)
    return "\n".join(lines)
