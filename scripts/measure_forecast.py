"""How long a forecast takes on this machine.

    uv run python scripts/measure_forecast.py [--answers 100] [--look-up 10000]

Reads answers of 300 tokens with the shipped draft, and replays look-up on many more at all 15 windows. Wall
time means something on an idle machine only; processor time nearly everywhere.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

from specdec.catalog.conventions import TEXTBOOK
from specdec.folders import cache_folder
from specdec.forecast.answers import Answer
from specdec.forecast.drafts import Draft, LookUp, open_draft
from specdec.forecast.forecast import read
from specdec.forecast.model import LlamaModel
from specdec.forecast.shipped import packaged
from specdec.forecast.tokens import Tokens
from specdec.forecast.weights import ready

LENGTH = 300


def texts(count: int, vocabulary: int) -> list[Tokens]:
    """Answers of ``LENGTH`` tokens after prompts of 60; a third of each repeats what came before."""
    chance = random.Random(1)
    made: list[Tokens] = []
    for number in range(count):
        tokens = [chance.randrange(100, vocabulary) for _ in range(60)]
        while len(tokens) < 60 + LENGTH:
            start = chance.randrange(len(tokens) - 20)
            fresh = [chance.randrange(100, vocabulary) for _ in range(20)]
            tokens += tokens[start : start + 20] if chance.random() < 1 / 3 else fresh
        answer = Answer(id=str(number), group="g", text="")
        made.append(Tokens(answer, tuple(tokens[:60]), tuple(tokens[60 : 60 + LENGTH])))
    return made


def took(draft: Draft, given: list[Tokens]) -> str:
    """Wall and processor time of a forecast's reading and replay."""
    wall, processor = time.monotonic(), time.process_time()
    read(draft, given, TEXTBOOK, lambda _, __, ___: None)
    return f"{time.monotonic() - wall:.1f} s, of processors {time.process_time() - processor:.1f} s"


def main() -> None:
    """Prints both times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--answers", type=int, default=100)
    parser.add_argument("--look-up", type=int, default=10_000)
    arguments = parser.parse_args()
    vocabulary = LlamaModel(packaged()).vocabulary
    if arguments.look_up:
        spent = took(LookUp(3), texts(arguments.look_up, vocabulary))
        print(f"look-up, {arguments.look_up} answers: {spent}", flush=True)
    if arguments.answers:
        with tempfile.TemporaryDirectory() as scratch:
            # Made once per machine, and no part of a forecast.
            weights = ready(cache_folder(os.environ) / "weights", "Q4_0")
            draft = open_draft(str(weights.path), cache=Path(scratch), tokenizer=None)
            spent = took(draft, texts(arguments.answers, vocabulary))
            print(f"shipped draft, {arguments.answers} answers: {spent}")


if __name__ == "__main__":
    main()
