"""Is the window that ``tune`` recommends for each load a good one, and is it as sure as it says?

    uv run python scripts/tune_load_proof.py [--services 40] [--window 3 --window 7] [--load 1 --load 8]
    [--seed WORD]

Simulates services whose steps grow with load and window in ways that ``tune`` is not told: fixed overheads,
buckets, knees and saturation over the window, and knees and buckets over all tokens of a batch. It sees some
windows at some loads, each time off by about 1%, and advises for every load between. Prints per kind of cost
how far the advice is from the best choice, and how often it is sure and wrong. The truth is computed by an
explicit walk over the texts, apart from the code under test.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scripts.tune_proof import KINDS, PLAIN_STEP, Texts, observed, walk
from specdec.analysis.choice import CLOSE, Measured
from specdec.analysis.load_model import fit_loads
from specdec.analysis.load_windows import over_load, predicted_loads
from specdec.analysis.window_model import LARGEST
from specdec.catalog.conventions import NXDI_FUSED, TEXTBOOK, Convention
from specdec.catalog.roofline import Floor

Step = Callable[[float, int], float]
"""Seconds of a step by load and window; window 0 is a plain step."""

SURE = 0.8


@dataclass(frozen=True)
class Advised:
    """What was advised for one service at one load.

    Attributes:
        load: requests in flight.
        loss: how much slower than the best choice the recommended one is; 0.03 is 3%.
        sure: as advised.
    """

    load: float
    loss: float
    sure: float


def _over_window(chance: random.Random, curve: Callable[[int], float], overhead: float) -> Step:
    """``curve`` is 1 at window 7; some of the extra time is one for the step, some is for each sequence."""
    slope = chance.uniform(0, 0.06)
    once, each = chance.uniform(0.1, 1.5), chance.choice([0.0, chance.uniform(0, 0.3)])

    def step(load: float, window: int) -> float:
        plain = 1 + slope * (load - 1)
        if not window:
            return PLAIN_STEP * plain
        return PLAIN_STEP * (plain + overhead + (once + each * (load - 1)) * curve(window))

    return step


def linear(chance: random.Random) -> Step:
    """The same for each position."""
    return _over_window(chance, lambda k: k / 7, 0.0)


def overhead(chance: random.Random) -> Step:
    """A part that is the same at every window, as large as what grows or larger."""
    return _over_window(chance, lambda k: k / 7, chance.uniform(0.2, 1.5))


def bucketed(chance: random.Random) -> Step:
    """Graphs for powers of two of tokens per sequence."""
    return _over_window(chance, lambda k: (2 ** math.ceil(math.log2(k + 1)) - 1) / 7, 0.0)


def knee(chance: random.Random) -> Step:
    """Cheap up to a window, then expensive."""
    place, factor = chance.randint(2, 12), chance.uniform(2, 6)

    def curve(k: int) -> float:
        return k + factor * max(0, k - place)

    return _over_window(chance, lambda k: curve(k) / curve(7), 0.0)


def saturating(chance: random.Random) -> Step:
    """The first positions are expensive, further ones nearly free."""
    reach = chance.uniform(2, 10)
    return _over_window(chance, lambda k: (1 - math.exp(-k / reach)) / (1 - math.exp(-7 / reach)), 0.0)


def knee_of_tokens(chance: random.Random) -> Step:
    """Tokens ride on the same pass over the weights until compute is used up; a draft takes its own time."""
    place, below = math.exp(chance.uniform(math.log(4), math.log(128))), chance.uniform(0, 0.01)
    above, draft = chance.uniform(0.02, 0.15), chance.uniform(0.02, 0.15)

    def step(load: float, window: int) -> float:
        tokens = load * (window + 1)
        return PLAIN_STEP * (1 + below * tokens + above * max(0.0, tokens - place) + draft * window)

    return step


def buckets_of_tokens(chance: random.Random) -> Step:
    """Graphs for powers of two of all tokens in a batch."""
    each, draft, start = chance.uniform(0.005, 0.05), chance.uniform(0.02, 0.1), chance.uniform(0, 0.5)

    def step(load: float, window: int) -> float:
        tokens = 2 ** math.ceil(math.log2(load * (window + 1)))
        return PLAIN_STEP * (1 + each * tokens + draft * window + start * (window > 0))

    return step


COSTS: dict[str, Callable[[random.Random], Step]] = {
    "linear": linear,
    "overhead": overhead,
    "bucketed": bucketed,
    "knee": knee,
    "saturating": saturating,
    "knee of tokens": knee_of_tokens,
    "buckets of tokens": buckets_of_tokens,
}


def judge(
    cases: dict[str, Texts],
    convention: Convention,
    step: Step,
    windows: Sequence[int],
    loads: Sequence[float],
    seed: int,
) -> list[Advised]:
    """What is advised at every load from what was measured, against the truth."""
    noise = random.Random(seed)
    plain = {load: step(load, 0) for load in loads}
    seen = {
        load: {
            name: [
                observed(
                    texts,
                    convention,
                    window,
                    lambda k, load=load: step(load, k) / plain[load],
                    noise,
                    plain=plain[load],
                )
                for window in windows
            ]
            for name, texts in cases.items()
        }
        for load in loads
    }
    model = fit_loads(seen, convention, floor=Floor(), loads=predicted_loads(sorted(loads)))
    assert model is not None
    advice = over_load(Measured(tuple(f"w{window}" for window in windows), None, tuple(windows)), model)
    shares = {
        window: sum(
            sum(len(walk(bits, convention.usable(window))) for bits in texts)
            / sum(len(bits) for bits in texts)
            for texts in cases.values()
        )
        / len(cases)
        for window in range(convention.smallest, LARGEST + 1)
    }
    results: list[Advised] = []
    for row in advice.rows:
        truth = {0: step(row.load, 0)} | {k: share * step(row.load, k) for k, share in shares.items()}
        results.append(Advised(row.load, truth[row.window or 0] / min(truth.values()) - 1, row.confidence))
    return results


def outcomes(
    shape: str, *, services: int, windows: Sequence[int], loads: Sequence[float], seed: str = ""
) -> list[Advised]:
    """Advice at every load for a number of services of one shape of cost; another seed, other services."""
    results: list[Advised] = []
    for number in range(services):
        chance = random.Random(f"{seed}{shape}-{number}")
        convention = chance.choice([TEXTBOOK, NXDI_FUSED])
        cases = {name: kind(chance, prompts=8, length=200) for name, kind in KINDS.items()}
        results += judge(cases, convention, COSTS[shape](chance), windows, loads, number)
    return results


def main() -> None:
    """Prints the table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--services", type=int, default=40, help="of each shape")
    parser.add_argument("--window", type=int, action="append", help="measured; may be given again")
    parser.add_argument("--load", type=float, action="append", help="measured; may be given again")
    parser.add_argument("--seed", default="", help="another word, other services")
    arguments = parser.parse_args()
    windows, loads = sorted(arguments.window or [7]), sorted(arguments.load or [1, 8])
    every: list[Advised] = []
    print("| cost | over 3% off | largest loss | median sure | over 0.8 sure | of these over 3% off |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for shape in COSTS:
        results = outcomes(
            shape, services=arguments.services, windows=windows, loads=loads, seed=arguments.seed
        )
        print(_row(shape, results), flush=True)
        every += results
    print(_row("all", every))


def _row(name: str, results: Sequence[Advised]) -> str:
    sure = [one for one in results if one.sure > SURE]
    off = sum(one.loss > CLOSE for one in results)
    wrong = sum(one.loss > CLOSE for one in sure)
    middle = sorted(one.sure for one in results)[len(results) // 2]
    share = f" ({wrong / len(sure):.1%})" if sure else ""
    return (
        f"| {name} | {off} of {len(results)} | {max(one.loss for one in results):.1%} | {middle:.2f} |"
        f" {len(sure)} | {wrong}{share} |"
    )


if __name__ == "__main__":
    main()
