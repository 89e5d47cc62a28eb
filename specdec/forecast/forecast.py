"""The forecast: from sources and drafts to what each draft would gain."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from specdec.catalog.conventions import Convention
from specdec.errors import BadInputError, Mistake
from specdec.forecast.answers import Sources
from specdec.forecast.bits import Kept
from specdec.forecast.drafts import Draft, UntoldError
from specdec.forecast.outlook import (
    LOOK_UP_SLOPES,
    MODEL_SLOPES,
    DraftOutlook,
    Replayed,
    StepCostDraws,
    look,
    replay_all,
)
from specdec.forecast.tokens import Tokenized, Tokenizer, Tokens, tokenize

Progress = Callable[[str, int, int], None]
"""Told what is done, how much of it, and of how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What was found.

    Attributes:
        convention: step arithmetic: ``textbook`` or ``nxdi-fused``.
        answers, tokens: that it rests on.
        of_answers: answers that could have been used; more than ``answers`` where a token budget sampled.
        layouts: entries by layout.
        matched: answers whose logged counts of tokens agree.
        exact: answers whose tokens are known one by one; the text of the others is tokenized again.
        unchecked: answers without logged counts.
        left_out: entries that are not used, by reason.
        notes: entries that are used although something is to be said of them.
        costs: measured cost of a step in plain steps, by window.
        cost_bands: 5th and 95th percentile of those that a run measured.
        plain_ms: time of a plain step in milliseconds; None where not known.
        drafts: one per draft, in the order asked.
    """

    convention: str
    answers: int
    tokens: int
    of_answers: int
    layouts: Mapping[str, int]
    matched: int
    exact: int
    unchecked: int
    left_out: Mapping[str, int]
    notes: Mapping[str, int]
    costs: Mapping[int, float]
    cost_bands: Mapping[int, tuple[float, float]]
    plain_ms: float | None
    drafts: tuple[DraftOutlook, ...]


def forecast(
    sources: Sources,
    tokenizer: Tokenizer,
    drafts: Sequence[Draft],
    convention: Convention,
    *,
    costs: Mapping[int, StepCostDraws],
    plain_ms: float | None = None,
    budget: int | None = None,
    on_progress: Progress = lambda _, __, ___: None,
) -> Forecast:
    """Makes the forecast.

    Args:
        sources: logged answers.
        tokenizer: of the target.
        drafts: to look at.
        convention: of the stack it would be served on.
        costs: cost of a step by window.
        plain_ms: time of a plain step, milliseconds.
        budget: tokens of answers that a draft model reads at most; answers are sampled down to it.
        on_progress: told how far it is.

    Raises:
        BadInputError: no answer can be used.
    """
    tokenized = tokenize(sources.answers, tokenizer)
    left_out = sources.left_out + tokenized.left_out
    if not tokenized.texts:
        reasons = "; ".join(f"{count} {reason}" for reason, count in left_out.items()) or "there are none"
        raise BadInputError(
            "SOURCE",
            [
                Mistake(
                    "answers",
                    len(sources.answers),
                    f"cannot be used: {reasons}",
                    "Name the target's own tokenizer with --tokenizer FILE.gguf",
                )
            ],
        )
    texts = sampled(tokenized.texts, budget)
    outlooks = [_look(draft, texts, convention, costs, on_progress) for draft in drafts]
    return Forecast(
        convention=convention.name,
        answers=len(texts),
        tokens=sum(len(text.written) for text in texts),
        of_answers=len(tokenized.texts),
        layouts=dict(sources.layouts),
        matched=_of(tokenized, texts, known=True),
        exact=sum(text.exact for text in texts),
        unchecked=_of(tokenized, texts, known=False),
        left_out=dict(left_out),
        notes=dict(sources.notes),
        costs={window: float(np.ravel(cost)[0]) for window, cost in costs.items()},
        cost_bands={
            window: (float(low), float(high))
            for window, cost in costs.items()
            if np.size(cost) > 1
            for low, high in [np.quantile(np.ravel(cost)[1:], [0.05, 0.95])]
        },
        plain_ms=plain_ms,
        drafts=tuple(outlooks),
    )


def sampled(texts: Sequence[Tokens], budget: int | None) -> tuple[Tokens, ...]:
    """Answers drawn at random, the same on every call, until their tokens fill a budget; at least one."""
    if budget is None or sum(len(text.written) for text in texts) <= budget:
        return tuple(texts)
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    chosen: set[int] = set()
    for number in order:
        if chosen and len(texts[number].written) > budget:
            break
        chosen.add(number)
        budget -= len(texts[number].written)
    return tuple(text for number, text in enumerate(texts) if number in chosen)


def read(
    draft: Draft, texts: Sequence[Tokens], convention: Convention, on_progress: Progress
) -> tuple[Replayed, Counter[str]]:
    """A draft's steps on all texts, and what it could not read."""
    kept: list[Kept] = []
    readable: list[Tokens] = []
    left_out: Counter[str] = Counter()
    for number, (text, said) in enumerate(zip(texts, _said(draft, texts), strict=True)):
        on_progress(draft.name, number, len(texts))
        if isinstance(said, str):
            left_out[said] += 1
        else:
            kept.append(said)
            readable.append(text)
    return replay_all(readable, kept, convention), left_out


def _said(draft: Draft, texts: Sequence[Tokens]) -> Iterator[Kept | str]:
    """What a draft says of each text in turn, or why it cannot."""

    def ask(text: Tokens) -> Kept | str:
        try:
            return draft.kept(text)
        except UntoldError as reason:
            return str(reason)
        except ValueError:
            return "longer than the draft's context"

    if draft.lanes < 2:
        yield from map(ask, texts)
        return
    with ThreadPoolExecutor(draft.lanes) as pool:
        try:
            yield from pool.map(ask, texts)
        finally:
            # Whoever interrupts a forecast does not wait for the rest of it.
            pool.shutdown(wait=True, cancel_futures=True)


def _look(
    draft: Draft,
    texts: Sequence[Tokens],
    convention: Convention,
    costs: Mapping[int, StepCostDraws],
    on_progress: Progress,
) -> DraftOutlook:
    replayed, left_out = read(draft, texts, convention, on_progress)
    if not replayed.texts:
        raise BadInputError(
            "SOURCE",
            [
                Mistake(
                    "answers",
                    len(texts),
                    f"cannot be used with {draft.name}: "
                    + "; ".join(f"{count} {reason}" for reason, count in left_out.items()),
                    "Name another draft, or other answers",
                )
            ],
        )
    slopes = LOOK_UP_SLOPES if draft.look_up else MODEL_SLOPES
    return look(
        draft.name, draft.rests_on, replayed, convention, slopes=slopes, costs=costs, left_out=left_out
    )


def _of(tokenized: Tokenized, texts: Sequence[Tokens], *, known: bool) -> int:
    if len(texts) == len(tokenized.texts):
        return tokenized.matched if known else tokenized.unchecked
    return sum((text.answer.completion_tokens is not None) == known for text in texts)
