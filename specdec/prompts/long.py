"""Long prompts of known length, made by rule from sentences written for this project.

Beside load, the length of a prompt is the second thing that turns a gain into a loss: each step reads a long
cache for every sequence, and a draft reads its own cache too. Two classes at three lengths show it:
``structured`` asks for entries of a long log as JSON, ``open`` for the next part of a long diary.
"""

from __future__ import annotations

import random

LENGTHS = (500, 2000, 8000)
"""Tokens of a prompt, about, see ``CHARACTERS_PER_TOKEN``."""

PROMPTS_EACH = 6

CHARACTERS_PER_TOKEN = {"structured": 1.55, "open": 3.65}
"""Of the two kinds of text, counted with SmolLM2's tokenizer, which like Qwen's splits numbers into digits;
one that joins them makes about half as many tokens of the log.
"""

SEED = 20261201

_PEOPLE = ("Ana", "Bruno", "Chidi", "Dilnoza", "Emil", "Farah", "Goran", "Hana")
_PLACES = ("the harbour", "the north mill", "the old library", "the ferry", "the orchard", "the workshop")
_THINGS = ("a crate of lamps", "two letters", "the blue ladder", "a sack of seed", "the spare pump")
_WEATHER = ("rain before noon", "a dry wind", "thin fog", "clear and cold", "sun after ten")
_ACTS = ("carried {thing} to {place}", "left {thing} at {place}", "looked for {thing} near {place}")
_THOUGHTS = (
    "Nobody asked why, and that was a relief.",
    "It took longer than planned, as it always does.",
    "On the way back there was time to talk about the bridge.",
    "The dog followed as far as the gate.",
    "We agreed to try it once more before the week was out.",
    "Later the light failed, and we ate in the dark and laughed.",
)


def texts() -> list[tuple[str, str, str]]:
    """(test case, class, prompt) of every prompt of the set, always the same."""
    prompts: list[tuple[str, str, str]] = []
    for name, prompt_class in (("log", "structured"), ("diary", "open")):
        for length in LENGTHS:
            for number in range(PROMPTS_EACH):
                chance = random.Random(f"{SEED} {name} {length} {number}")
                characters = int(length * CHARACTERS_PER_TOKEN[prompt_class])
                make = _log if name == "log" else _diary
                prompts.append((f"{name}-{length}", prompt_class, make(characters, chance)))
    return prompts


def _log(characters: int, chance: random.Random) -> str:
    wanted = chance.choice(_PEOPLE)
    ask = (
        f"\nList the entries of {wanted} as a JSON array of objects with the keys entry, day, minute, place"
        " and load, in the order of the log. Give the array and nothing else."
    )
    lines = ["Log of the depot. One entry a line: entry, day, minute, who, place, load in kilograms.\n"]
    entry = chance.randrange(1000, 9000)
    while sum(map(len, lines)) + len(ask) < characters:
        entry += chance.randrange(1, 4)
        place = chance.choice(_PLACES).removeprefix("the ")
        lines.append(
            f"{entry}, {chance.randrange(1, 29)}, {chance.randrange(1440)}, {chance.choice(_PEOPLE)},"
            f" {place}, {chance.randrange(5, 900)}\n"
        )
    return "".join(lines) + ask


def _diary(characters: int, chance: random.Random) -> str:
    ask = "\n\nWrite the next three days of this diary in the same voice, with something nobody expected."
    days = ["Pages of a diary.\n"]
    day = 1
    while sum(map(len, days)) + len(ask) < characters:
        act = chance.choice(_ACTS).format(thing=chance.choice(_THINGS), place=chance.choice(_PLACES))
        days.append(
            f"\nDay {day}: {chance.choice(_WEATHER)}. {chance.choice(_PEOPLE)} {act}."
            f" {chance.choice(_THOUGHTS)}"
        )
        day += 1
    return "".join(days) + ask
