"""Output tokens: a check, not a speed."""

from __future__ import annotations

from specdec.metrics.definition import Metric
from specdec.runs.record import RequestRecord


def output_tokens(record: RequestRecord) -> float | None:
    """Completion tokens of the request: ``C``, by the source that ``token_source`` names. None when not
    known.
    """
    return None if record.output_tokens is None else float(record.output_tokens)


OUTPUT_TOKENS = Metric(
    name="OutputTokens",
    symbol="output tokens",
    unit="Count",
    formula="C",
    source="docs/metrics.md",
    better="neither",
    of=output_tokens,
)
