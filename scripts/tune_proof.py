"""Is the window that ``tune`` recommends from one measured window a good one, and is it as sure as it says?

    uv run python scripts/tune_proof.py [--services 25] [--window 7] [--seed WORD]

Simulates services whose prompts differ (mixed prompts) or whose texts change between easy and hard stretches
(mixed stretches), with step costs of every shape, and prints per kind how far the recommended window is from
the best one. The truth is computed by an explicit walk over the texts, apart from the code under test.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specdec.analysis.choice import CLOSE, Measured, advise
from specdec.analysis.observation import Observation
from specdec.analysis.window_model import LARGEST, fit
from specdec.catalog.conventions import NXDI_FUSED, TEXTBOOK, Convention

Cost = Callable[[int], float]
Texts = list[list[bool]]
"""Per prompt, whether the draft is right at each position."""

PLAIN_STEP = 0.045


@dataclass(frozen=True)
class Outcome:
    """What was advised for one service.

    Attributes:
        loss: how much slower than the best choice the recommended one is; 0.03 is 3%.
        sure: as advised.
        confirm: the window that was named to measure next.
        after: how much slower than the best choice the best of the measured windows is once that one was
            measured too.
    """

    loss: float
    sure: float
    confirm: int | None
    after: float


def mixed_prompts(chance: random.Random, prompts: int = 12, length: int = 400) -> Texts:
    """Prompts of one acceptance each, from 0.2 to 0.97."""
    return [
        [chance.random() < rate for _ in range(length)]
        for rate in (chance.uniform(0.2, 0.97) for _ in range(prompts))
    ]


def mixed_stretches(chance: random.Random, prompts: int = 12, length: int = 400) -> Texts:
    """Texts that change between an easy and a hard stretch, about 15 to 60 tokens each."""
    easy, hard = chance.uniform(0.9, 0.99), chance.uniform(0.1, 0.5)
    stay = 1 - 1 / chance.uniform(15, 60)
    texts: Texts = []
    for _ in range(prompts):
        rate, bits = chance.choice([easy, hard]), list[bool]()
        for _ in range(length):
            bits.append(chance.random() < rate)
            if chance.random() > stay:
                rate = easy + hard - rate
        texts.append(bits)
    return texts


def linear(chance: random.Random) -> Cost:
    """The same for each position."""
    slope = chance.uniform(0.03, 0.3)
    return lambda k: 1 + slope * k


def bucketed(chance: random.Random) -> Cost:
    """Graphs for powers of two of tokens."""
    slope = chance.uniform(0.03, 0.3)
    return lambda k: 1 + slope * (2 ** math.ceil(math.log2(k + 1)) - 1)


def knee(chance: random.Random) -> Cost:
    """Cheap up to a window, then expensive."""
    slope, place, factor = chance.uniform(0.02, 0.1), chance.randint(2, 12), chance.uniform(2, 6)
    return lambda k: 1 + slope * (k + factor * max(0, k - place))


def saturating(chance: random.Random) -> Cost:
    """The first positions are expensive, further ones nearly free."""
    limit, reach = chance.uniform(0.5, 3.0), chance.uniform(2, 10)
    return lambda k: 1 + limit * (1 - math.exp(-k / reach))


def walk(bits: Sequence[bool], usable: int) -> list[int]:
    """Steps of one text, token by token."""
    sizes: list[int] = []
    place = 0
    while place < len(bits):
        size = 1
        while size <= usable and place + size < len(bits) and bits[place + size - 1]:
            size += 1
        sizes.append(size)
        place += size
    return sizes


def observed(
    texts: Texts,
    convention: Convention,
    window: int,
    cost: Cost,
    noise: random.Random,
    *,
    plain: float = PLAIN_STEP,
) -> Observation:
    """One measured window of a service whose plain step takes ``plain`` seconds, each prompt's time off by
    about 1%.
    """
    usable = convention.usable(window)
    sequences = [walk(bits, usable) for bits in texts]
    sizes = np.zeros((len(texts), usable + 1))
    for row, steps in enumerate(sequences):
        for size in steps[:-1]:
            sizes[row, size - 1] += 1
    counts = np.asarray([float(len(steps)) for steps in sequences])
    times = [plain * cost(window) * len(steps) * noise.gauss(1, 0.01) for steps in sequences]
    return Observation(
        window=window,
        fill=1.0,
        sizes=sizes,
        sequences=tuple((tuple(steps),) for steps in sequences),
        steps=counts,
        drafted=counts,
        tokens=np.asarray([float(len(bits)) for bits in texts]),
        seconds=np.asarray(times),
        baseline=np.asarray([plain * noise.gauss(1, 0.01) for _ in texts]),
    )


def judge(texts: Texts, convention: Convention, cost: Cost, windows: Sequence[int], seed: int) -> Outcome:
    """What is advised from the measured windows, against the truth."""
    noise = random.Random(seed)
    seen = [observed(texts, convention, window, cost, noise) for window in windows]
    model = fit(seen, convention)
    measured = Measured(tuple(f"w{window}" for window in windows), None, tuple(windows))
    advice = advise(measured, [model], test_case=None, tpots={})
    tokens = sum(len(bits) for bits in texts)
    truth = {0: 1.0}
    for window in range(convention.smallest, LARGEST + 1):
        count = sum(len(walk(bits, convention.usable(window))) for bits in texts)
        truth[window] = count * cost(window) / tokens
    best = min(truth.values())
    known = {0, *windows, advice.confirm or 0}
    return Outcome(
        truth[advice.recommended or 0] / best - 1,
        advice.confidence,
        advice.confirm,
        min(truth[window] for window in known) / best - 1,
    )


KINDS = {"mixed prompts": mixed_prompts, "mixed stretches": mixed_stretches}
COSTS = {"linear": linear, "bucketed": bucketed, "knee": knee, "saturating": saturating}


def outcomes(
    kind: str, shape: str, *, services: int, windows: Sequence[int], seed: str = ""
) -> list[Outcome]:
    """Advice for a number of services of one kind and one shape of cost; another seed, other services."""
    results: list[Outcome] = []
    for number in range(services):
        chance = random.Random(f"{seed}{kind}-{shape}-{number}")
        convention = chance.choice([TEXTBOOK, NXDI_FUSED])
        results.append(judge(KINDS[kind](chance), convention, COSTS[shape](chance), windows, number))
    return results


def main() -> None:
    """Prints the table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--services", type=int, default=25)
    parser.add_argument("--window", type=int, action="append", help="measured; may be given again")
    parser.add_argument("--seed", default="", help="another word, other services")
    arguments = parser.parse_args()
    windows = sorted(arguments.window or [7])
    print(
        "| service | cost | over 3% off | largest loss | median sure | over 0.8 sure | of these over 3% off"
        " | best measured over 3% off |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind in KINDS:
        for shape in COSTS:
            results = outcomes(kind, shape, services=arguments.services, windows=windows, seed=arguments.seed)
            sure = [outcome for outcome in results if outcome.sure > 0.8]
            off = sum(outcome.loss > CLOSE for outcome in results)
            wrong = sum(outcome.loss > CLOSE for outcome in sure)
            after = sum(outcome.after > CLOSE for outcome in results)
            middle = sorted(outcome.sure for outcome in results)[len(results) // 2]
            print(
                f"| {kind} | {shape} | {off} of {len(results)} |"
                f" {max(outcome.loss for outcome in results):.1%} | {middle:.2f} | {len(sure)} | {wrong} |"
                f" {after} of {len(results)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
