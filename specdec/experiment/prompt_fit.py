"""Which prompts a service cannot take: too long beside their answer, or sampled where nothing samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from specdec.catalog.images import STACKS
from specdec.errors import BadInputError, Mistake
from specdec.prompts import sets
from specdec.prompts.sets import Prompt

if TYPE_CHECKING:
    from pathlib import Path

    from specdec.experiment.fields import Experiment

TEMPLATE_TOKENS = 32
"""Tokens that a chat template adds to a conversation, with room: Qwen3's adds 9 and 5 more a message."""


def most_tokens(prompt: Prompt) -> int:
    """Tokens of a prompt, estimated from above: digits are a token each (Qwen's tokenizer splits numbers into
    single digits), and other bytes two or more to a token in running text and code.
    """
    text = "".join(turn.content for turn in prompt.conversation)
    digits = sum(character.isdigit() for character in text)
    return digits + (len(text.encode()) - digits + 1) // 2 + TEMPLATE_TOKENS


def fitting(experiment: Experiment, *, base: Path | None = None) -> tuple[Prompt, ...]:
    """The prompts of an experiment, read and held against its services.

    Args:
        experiment: a checked experiment.
        base: folder that a relative ``benchmark.prompts`` path starts from; the current one by default.

    Raises:
        BadInputError: the prompts cannot be read, or the services cannot take one.
    """
    prompts = sets.load(experiment.benchmark.prompts, base=base)
    require_fit(prompts, experiment)
    return prompts


def require_fit(prompts: Sequence[Prompt], experiment: Experiment) -> None:
    """Raises:
    BadInputError: the experiment's services cannot take a prompt; see ``misfits``.
    """
    wrong = list(misfits(prompts, experiment))
    if wrong:
        raise BadInputError(f"prompts {experiment.benchmark.prompts}", wrong)


def misfits(prompts: Sequence[Prompt], experiment: Experiment) -> Iterator[Mistake]:
    """Prompts of a set that the experiment's services cannot serve.

    A speculative step writes ahead by its window. If that goes beyond the context, the published stack's
    server ends with an assertion, and the whole run is lost instead of one request.
    """
    benchmark, serving = experiment.benchmark, experiment.serving
    window = max((variant.window or 0 for variant in experiment.variants), default=0)
    stack = STACKS.get(serving.stack)
    greedy = stack is not None and not stack.samples and any(v.speculative for v in experiment.variants)
    for prompt in prompts:
        output = prompt.output_tokens or benchmark.output_tokens
        tokens = most_tokens(prompt)
        if tokens + output + window > serving.max_model_len:
            yield Mistake(
                f"prompt {prompt.id}",
                f"about {tokens} tokens at most, {output} of output",
                f"may not fit serving.max_model_len ({serving.max_model_len}) with the window of {window};"
                " the server would end",
                "Shorten it or its output_tokens, or raise serving.max_model_len",
            )
        if greedy and prompt.temperature:
            yield Mistake(
                f"prompt {prompt.id} temperature",
                prompt.temperature,
                f"would be ignored: every service on {serving.stack} is compiled to decode greedily",
                "Leave it out, or use a stack that samples",
            )
