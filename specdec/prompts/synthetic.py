"""Prompts of a wanted length, made up: for questions of load and of long prompts, not of acceptance."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from specdec.errors import BadInputError, Mistake

if TYPE_CHECKING:
    from specdec.prompts.sets import Prompt

SCHEME = "synthetic:"
"""How the name of such a set begins, e.g. ``synthetic:input=512,output=128,shared=256,count=16,seed=1``."""

_DEFAULTS = {"input": 512, "output": 128, "shared": 0, "count": 16, "seed": 1}
_BOUNDS = {
    "input": (16, 200_000),
    "output": (2, 100_000),
    "shared": (0, 200_000),
    "count": (1, 10_000),
    "seed": (0, 2**31 - 1),
}

_TEXT = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government number "
    "night point home water room mother area money story fact month lot right study book eye job word "
    "business issue side kind head house service friend father power hour game line end member law "
    "car city community name president team minute idea body information back parent face others "
    "level office door health person art war history party result change morning reason research girl "
    "guy moment air teacher force education "
)
_WORDS = tuple(_TEXT.split())
"""Usual words, each of which usual vocabularies hold as one token with the space before it."""

_ASK = "Continue this list of words for as long as you can:"


def prompts(name: str) -> tuple[Prompt, ...]:
    """The prompts of a synthetic set.

    A prompt of ``input`` tokens has about as many words; the server's usage tells the real number of tokens.
    Its first ``shared`` words are the same in all, as a system prompt is, and what follows differs.

    Args:
        name: ``synthetic:`` and fields with commas between; what is left out has its default.

    Raises:
        BadInputError: a field that is not known, or a value out of its bounds.
    """
    from specdec.prompts.sets import Prompt

    fields = _fields(name)
    chance = random.Random(fields["seed"])
    asked = _ASK.split()
    shared = chance.choices(_WORDS, k=fields["shared"])
    own = max(0, fields["input"] - fields["shared"] - len(asked))
    case = f"{fields['input']} in, {fields['output']} out"
    return tuple(
        Prompt(
            id=f"synthetic-{number}",
            test_case=case,
            prompt_class="synthetic",
            text=" ".join([*shared, *chance.choices(_WORDS, k=own), *asked]),
            output_tokens=fields["output"],
        )
        for number in range(1, fields["count"] + 1)
    )


def _fields(name: str) -> dict[str, int]:
    fields = dict(_DEFAULTS)
    mistakes: list[Mistake] = []
    for part in filter(None, name.removeprefix(SCHEME).split(",")):
        field, _, value = part.partition("=")
        if field not in _BOUNDS:
            mistakes.append(
                Mistake("prompts", part, "is not a field of synthetic prompts", f"Use {', '.join(_BOUNDS)}")
            )
            continue
        low, high = _BOUNDS[field]
        if not (value.isascii() and value.isdecimal() and len(value) < 11 and low <= int(value) <= high):
            mistakes.append(Mistake("prompts", part, f"is not within {low} and {high}", f"Write {field}=N"))
            continue
        fields[field] = int(value)
    least = fields["shared"] + len(_ASK.split()) + 4
    if not mistakes and fields["input"] < least:
        problem = f"leaves no word of its own to a prompt with {fields['shared']} shared"
        mistakes.append(Mistake("prompts", f"input={fields['input']}", problem, f"Use {least} or more"))
    if mistakes:
        raise BadInputError(name, mistakes)
    return fields
