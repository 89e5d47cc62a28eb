"""The decoder's steps in the stream of a request, and how they may be read on a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import sub

from specdec.analysis.verdict import StepSource
from specdec.metrics.steps import step_starts
from specdec.metrics.tokens_per_step import joins_steps, tokens_per_step
from specdec.runs.record import RequestRecord
from specdec.runs.remembered import remembered

MERGED_SHARE = 0.02
"""Share of steps larger than the window allows above which a speculative server joins steps. A few come from
reads of a busy client."""

BURST_SHARE = 0.02
"""Share of chunks that do not begin a step above which bursts, and not chunks, are called the source."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one request after its first, which prefill emitted.

    Attributes:
        tokens: tokens each step emitted, in order.
        seconds: from the first step to the last.
    """

    tokens: tuple[int, ...]
    seconds: float

    @property
    def uncut(self) -> tuple[int, ...]:
        """Tokens of the steps that the end of the output did not cut short: all but the last, where there are
        others.
        """
        return self.tokens[:-1] if len(self.tokens) > 1 else self.tokens


@lru_cache(maxsize=4096)
def _single_tokens(steps: int) -> tuple[int, ...]:
    """One tuple for the thousands of plain streams of one length."""
    return (1,) * steps


@remembered
def read_steps(record: RequestRecord) -> Steps | None:
    """The steps of one request; None without token counts per chunk or without a second step."""
    if record.chunk_tokens is None:
        return None
    starts = step_starts(record)
    if len(starts) < 2:
        return None
    times, counts = record.chunk_times, record.chunk_tokens
    ends: Sequence[int] = counts
    if len(starts) == len(counts) == counts[-1] - counts[0] + 1:
        return Steps(_single_tokens(len(counts) - 1), times[-1] - times[0])
    if len(starts) < len(counts):
        ends = [counts[start - 1] for start in starts[1:]] + [counts[-1]]
    return Steps(tuple(map(sub, ends[1:], ends)), times[starts[-1]] - times[0])


def is_idle(records: Sequence[RequestRecord]) -> bool:
    """Whether no step of these requests emitted more than one token, though steps can be read: nothing was
    proposed, or nothing kept.
    """
    read = [steps for record in records if (steps := read_steps(record)) is not None]
    return bool(read) and all(size == 1 for steps in read for size in steps.tokens)


def merges(records: Sequence[RequestRecord], most: int) -> bool:
    """Whether more than a share of ``MERGED_SHARE`` of the steps emitted more tokens than a step can.

    Args:
        records: measured requests of one speculative variant.
        most: tokens that one step can emit at its window.
    """
    sizes = [size for record in records if (read := read_steps(record)) is not None for size in read.tokens]
    return sum(size > most for size in sizes) > MERGED_SHARE * len(sizes)


def step_source(baseline: Sequence[RequestRecord], variant: Sequence[RequestRecord]) -> StepSource | None:
    """How the steps of a variant can be read from its stream; None if they cannot.

    Args:
        baseline: measured records of a plain variant on the same kind of server. Its steps emit one token
            each; if they seem to emit more, the server joins steps, and it joins the speculative ones too.
        variant: measured records of the variant.
    """
    plain = [value for value in map(tokens_per_step, baseline) if value is not None]
    counted = [record for record in variant if record.chunk_tokens is not None]
    if not plain or joins_steps(plain) or not counted:
        return None
    chunks = sum(len(record.chunk_times) for record in counted)
    begins = sum(len(step_starts(record)) for record in counted)
    return "client-bursts" if chunks - begins > BURST_SHARE * chunks else "client-chunks"
