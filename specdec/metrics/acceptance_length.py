"""Acceptance length, as the server reports it for one request."""

from __future__ import annotations

from specdec.metrics.definition import Metric
from specdec.runs.record import RequestRecord


def acceptance_length(record: RequestRecord) -> float | None:
    """Mean tokens of a verified step by the server's own count: ``1 + accepted / drafts``.

    None where the server reports nothing for the request, or not how often it verified. Unlike tokens per
    step it leaves out steps that had no proposal to verify.
    """
    server = record.server
    if server is None or not server.drafts:
        return None
    return 1 + server.accepted_tokens / server.drafts


ACCEPTANCE_LENGTH = Metric(
    name="AcceptanceLength",
    symbol="acceptance length",
    unit="Count",
    formula="1 + accepted / drafts",
    source="vLLM's own definition, vllm/benchmarks/serve.py of 0.33.0",
    better="larger",
    of=acceptance_length,
)
