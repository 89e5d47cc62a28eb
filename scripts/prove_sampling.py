"""Does the test of sampled answers pass right samplers, and find wrong ones? Tried on simulated decoders.

A small language of known chances is decoded plainly and by speculative sampling (Leviathan, Kalman, Matias,
2023), right and wrong; the test gets their texts. Prints the table in docs/verdict.md.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from specdec.analysis.sampled import COLDER, sampled_test
from specdec.runs.record import RequestRecord

WORDS = 60
TOKENS = 8
WINDOW = 4
REQUESTS = 600
"""Answers of either side: what ``specdec sampling`` asks for by default."""

LANGUAGES = 10
"""Different ones that the trials of a row take in turn."""

Draw = Callable[[np.random.Generator], list[int]]


class Language:
    """Chances of the next word, given the last three.

    Args:
        spread: standard deviation of the logits; 2 leaves about 14 words to choose from, 4 about 3.
    """

    def __init__(self, spread: float, seed: int) -> None:
        self.spread = spread
        self.seed = seed
        self.known: dict[tuple[tuple[int, ...], float, bool], np.ndarray] = {}

    def logits(self, context: tuple[int, ...], *, draft: bool) -> np.ndarray:
        """Of the target, or of a draft that agrees with it in part."""
        own = np.random.default_rng([self.seed, 1 + len(context), *context])
        values = own.normal(0, self.spread, WORDS)
        return values + own.normal(0, self.spread / 2, WORDS) if draft else values

    def chances(self, context: tuple[int, ...], temperature: float, draft: bool) -> np.ndarray:
        """Of every word."""
        key = context, temperature, draft
        if key not in self.known:
            logits = self.logits(context, draft=draft) / temperature
            weights = np.exp(logits - logits.max())
            self.known[key] = weights / weights.sum()
        return self.known[key]


def pick(chance: np.random.Generator, chances: np.ndarray) -> int:
    """A word drawn with these chances."""
    sums: list[float] = np.cumsum(chances).tolist()
    return bisect_left(sums, chance.random() * sums[-1])


def plain(language: Language, temperature: float = 1.0) -> Draw:
    """One token after another."""

    def draw(chance: np.random.Generator) -> list[int]:
        said: list[int] = []
        while len(said) < TOKENS:
            said.append(pick(chance, language.chances(tuple(said[-3:]), temperature, False)))
        return said

    return draw


def speculative(
    language: Language, *, verifier: float = 1.0, residual: bool = True, lenient: float = 1.0
) -> Draw:
    """Speculative sampling with a window. The first token is the target's own, as servers make it.

    Args:
        language: of target and draft.
        verifier: temperature that proposals are verified at.
        residual: whether a refused proposal is replaced from what the target has more than the draft, as is
            right, or from the target itself.
        lenient: factor on the chance of acceptance.
    """

    def draw(chance: np.random.Generator) -> list[int]:
        said = [pick(chance, language.chances((), 1.0, False))]
        while len(said) < TOKENS:
            proposed: list[int] = []
            for _ in range(WINDOW):
                context = tuple([*said, *proposed][-3:])
                proposed.append(pick(chance, language.chances(context, 1.0, True)))
            for word in proposed:
                context = tuple(said[-3:])
                target = language.chances(context, verifier, False)
                draft = language.chances(context, 1.0, True)
                if chance.random() < lenient * target[word] / draft[word]:
                    said.append(word)
                    continue
                said.append(pick(chance, np.maximum(target - draft, 0) if residual else target))
                break
            else:
                said.append(pick(chance, language.chances(tuple(said[-3:]), verifier, False)))
        return said[:TOKENS]

    return draw


def records(variant: str, draw: Draw, requests: int, chance: np.random.Generator) -> list[RequestRecord]:
    """Answers as the benchmark keeps them."""
    return [
        RequestRecord(
            run="run",
            lane="sampling",
            variant=variant,
            test_case="sampling",
            prompt_class="open",
            prompt="sampling",
            repeat=number,
            block=0,
            warmup=False,
            concurrency=4,
            sent_utc="",
            sent=0.0,
            outcome="ok",
            temperature=1.0,
            text="".join(f" w{word}" for word in draw(chance)),
        )
        for number in range(requests)
    ]


CASES: dict[str, Callable[[Language], Draw]] = {
    "right: decoded plainly": plain,
    "right: speculative sampling": speculative,
    f"verifies at temperature {COLDER}": lambda language: speculative(language, verifier=COLDER),
    f"samples at temperature {COLDER}": lambda language: plain(language, COLDER),
    "replaces a refused token from the target": lambda language: speculative(language, residual=False),
    "accepts twice as easily": lambda language: speculative(language, lenient=2.0),
}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--spreads", type=float, nargs="*", default=[2.0, 3.0, 4.0])
    arguments = parser.parse_args()
    print("| other | spread | passes | found | cannot tell | median of the stated power |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, make in CASES.items():
        for spread in arguments.spreads:
            states: Counter[str] = Counter()
            powers: list[float] = []
            languages = [Language(spread, number) for number in range(LANGUAGES)]
            for trial in range(arguments.trials):
                language = languages[trial % LANGUAGES]
                chance = np.random.default_rng([trial, int(10 * spread), len(name)])
                ours = records("baseline", plain(language), arguments.requests, chance)
                theirs = records("other", make(language), arguments.requests, chance)
                test = sampled_test(ours, theirs)
                states[test.state] += 1
                powers.append(test.power)
            shares = [
                states[state] / arguments.trials for state in ("one distribution", "differs", "cannot tell")
            ]
            shown = " | ".join(f"{share:.1%}" for share in shares)
            print(f"| {name} | {spread:g} | {shown} | {np.median(powers):.0%} |", flush=True)


if __name__ == "__main__":
    main()
