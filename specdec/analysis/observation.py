"""The observations of one test case at one window, prompt by prompt, so that prompts can be resampled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specdec.analysis.acceptance import drafted_steps, mean_proposal, reports_proposals
from specdec.analysis.conventions import Floats
from specdec.analysis.step_reading import read_steps
from specdec.catalog.conventions import Convention
from specdec.metrics.tpot import TPOT
from specdec.runs.record import RequestRecord


@dataclass(frozen=True, slots=True)
class Observation:
    """One speculative variant on one test case. Arrays have one row per prompt.

    Attributes:
        window: num_speculative_tokens.
        fill: mean proposed tokens of a step that proposed any, over the window; 1 for a draft model.
        sizes: steps that emitted 1, 2, ... usable + 1 tokens, the last step of each request left out since
            the limit cut it.
        sequences: per prompt, the steps of each of its requests: tokens of every step, in order.
        steps: all steps.
        drafted: of these, the ones that had proposals to verify.
        tokens: tokens that all steps emitted.
        seconds: that all steps took.
        baseline: mean seconds per token of the plain variant on the prompt.
    """

    window: int
    fill: float
    sizes: Floats
    sequences: tuple[tuple[tuple[int, ...], ...], ...]
    steps: Floats
    drafted: Floats
    tokens: Floats
    seconds: Floats
    baseline: Floats

    def costs(self, weights: Floats) -> Floats:
        """Time of a step that verifies proposals, in plain steps: one per row of ``weights``, see
        ``resampled``.
        """
        drafted = np.maximum(weights @ self.drafted, 1e-9)
        plain = weights @ (self.steps - self.drafted)
        local = weights @ self.baseline / weights.sum(axis=1)
        costs: Floats = (weights @ self.seconds / local - plain) / drafted
        return costs


def resampled(prompts: int, draws: int, rng: np.random.Generator) -> Floats:
    """How often each prompt counts: once in the first row, as drawn with replacement in the others."""
    counts = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=draws).astype(np.float64)
    return np.concatenate([np.ones((1, prompts)), counts])


def observe(
    baseline: Sequence[RequestRecord],
    variant: Sequence[RequestRecord],
    *,
    convention: Convention,
    window: int,
    counters: dict[str, Any] | None = None,
    every: Sequence[RequestRecord] = (),
) -> Observation | None:
    """Gathers what the window model needs.

    Args:
        baseline: measured requests of the plain variant on one test case.
        variant: measured requests of the speculative one on the same test case.
        convention: of the stack.
        window: the variant's num_speculative_tokens.
        counters: the variant's server counters over the run.
        every: all measured requests of the variant; whether its server tells speculation per request is
            learnt from these.

    Returns:
        None when no prompt has both steps that can be read and a baseline.
    """
    proposal = mean_proposal(counters)
    reported = reports_proposals(every or variant)
    usable = convention.usable(window)
    rows: list[tuple[list[int], int, int, int, float, float]] = []
    sequences: list[tuple[tuple[int, ...], ...]] = []
    plainly = _by_prompt(baseline)
    for prompt, own in _by_prompt(variant).items():
        plain = [value for record in plainly.get(prompt, ()) if (value := TPOT.of(record)) is not None]
        read = [(record, steps) for record in own if (steps := read_steps(record)) is not None]
        if not plain or not read:
            continue
        sizes = [0] * (usable + 1)
        for size, times in Counter(size for _, steps in read for size in steps.uncut).items():
            sizes[min(max(size, 1), usable + 1) - 1] += times
        count = sum(len(steps.tokens) for _, steps in read)
        records = [record for record, _ in read]
        drafted = (
            drafted_steps(records, every=count, proposal=proposal)
            if any(record.server for record in records)
            else count * (not reported)
        )
        tokens = sum(sum(steps.tokens) for _, steps in read)
        sequences.append(tuple(_separate(steps.tokens, usable + 1) for _, steps in read))
        rows.append(
            (sizes, count, drafted, tokens, sum(steps.seconds for _, steps in read), sum(plain) / len(plain))
        )
    if not rows:
        return None
    sizes, counts, drafts, tokens, seconds, plain = (
        np.asarray(column, dtype=np.float64) for column in zip(*rows, strict=True)
    )
    return Observation(
        window=window,
        fill=min(1.0, proposal / window) if proposal is not None else 1.0,
        sizes=sizes,
        sequences=tuple(sequences),
        steps=counts,
        drafted=drafts,
        tokens=tokens,
        seconds=seconds,
        baseline=plain,
    )


def _by_prompt(records: Sequence[RequestRecord]) -> dict[str, list[RequestRecord]]:
    groups: dict[str, list[RequestRecord]] = {}
    for record in records:
        groups.setdefault(record.prompt, []).append(record)
    return groups


def _separate(sizes: Sequence[int], most: int) -> tuple[int, ...]:
    """Splits steps that reached the client together, which are recognized because they are larger than one
    step can be.
    """
    if not sizes or (max(sizes) <= most and min(sizes) >= 1):
        return tuple(sizes)
    parts: list[int] = []
    for size in sizes:
        full, rest = divmod(max(size, 1), most)
        parts += [most] * full + [rest] * (rest > 0)
    return tuple(parts)
