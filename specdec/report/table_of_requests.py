"""Every measured request of a run as a row, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import re

from specdec.metrics import ALL
from specdec.runs.folder import Run
from specdec.runs.record import RequestRecord

_FACTS = (
    "run",
    "lane",
    "variant",
    "test_case",
    "prompt_class",
    "prompt",
    "repeat",
    "block",
    "concurrency",
    "rate",
    "sent_utc",
    "outcome",
    "finish_reason",
    "prompt_tokens",
    "output_tokens",
    "token_source",
    "temperature",
)
_UNITS = {"Seconds": "_seconds", "Count/Second": "_per_second"}


def columns() -> list[str]:
    """Names of the columns: what a request was, then every metric with its unit."""
    names = [re.sub(r"(?<!^)(?=[A-Z])", "_", metric.name).lower() for metric in ALL]
    units = [_UNITS.get(metric.unit, "") for metric in ALL]
    measured = [
        f"{name}{'' if name.endswith(unit) else unit}" for name, unit in zip(names, units, strict=True)
    ]
    return [*_FACTS, *(f"metric_{name}" if name in _FACTS else name for name in measured)]


def as_csv(run: Run) -> str:
    """The rows as CSV with a heading (RFC 4180): flat, one type a column, an empty cell for what is not
    known, so that pandas or DuckDB make Parquet of it without being told anything. Warm-up is left out;
    failed requests are in, without metrics.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns())
    for record in run.records:
        if not record.warmup:
            writer.writerow([*_facts(record), *_metrics(record)])
    return text.getvalue()


def _facts(record: RequestRecord) -> list[object]:
    values = (getattr(record, name) for name in _FACTS)
    return ["" if value is None else value for value in values]


def _metrics(record: RequestRecord) -> list[object]:
    values = (metric.of(record) if record.outcome == "ok" else None for metric in ALL)
    return ["" if value is None else f"{value:.9g}" for value in values]
