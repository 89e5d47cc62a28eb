"""Tokens per step, as seen at the client."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from specdec.metrics.definition import Metric
from specdec.metrics.steps import step_starts
from specdec.metrics.tpot import tokens_after_first_chunk
from specdec.runs.record import RequestRecord

MERGED = 1.05
"""Mean tokens per step of a plain variant above which its server joins the tokens of several steps: then no
step of its kind of server can be told.
"""


def joins_steps(plain: Sequence[float]) -> bool:
    """Whether a server joins steps, by the tokens per step of its plain variant; not known without any."""
    return bool(plain) and fmean(plain) > MERGED


def tokens_per_step(record: RequestRecord) -> float | None:
    """Tokens after the first step over the steps they came in: ``(C_m - C_1) / (s - 1)``. None without counts
    or a second step.

    Where the server tells its steps (``chunk_steps``), ``s`` is its count. 1 on a plain variant; more there
    means that its server merges steps, and then it merges the speculative ones too. Needs no help from the
    server beyond token counts, so that it holds on stacks whose acceptance counters stay at zero.
    """
    tokens = tokens_after_first_chunk(record)
    if record.chunk_steps and tokens is not None:
        steps = record.chunk_steps[-1] - record.chunk_steps[0]
        return tokens / steps if steps > 0 else None
    starts = step_starts(record)
    if tokens is None or len(starts) < 2:
        return None
    if record.chunk_tokens is not None:
        tokens = record.chunk_tokens[-1] - record.chunk_tokens[starts[1] - 1]
    return tokens / (len(starts) - 1)


TOKENS_PER_STEP = Metric(
    name="TokensPerStep",
    symbol="tokens per step",
    unit="Count",
    formula="(C_m - C_1) / (s - 1)",
    source="docs/metrics.md",
    better="larger",
    of=tokens_per_step,
)
