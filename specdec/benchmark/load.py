"""Which request is sent when: blocks, the order of variants in them, arrival times. Pure; a seed fixes
everything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from specdec.benchmark.prompts import Prompt

if TYPE_CHECKING:
    from specdec.benchmark.plan import Arrival, Job, Plan

WARMUP_TOKENS = 32
"""Tokens of a warm-up request: enough to open connections and fill caches of code, too few to cost an
accelerator much.
"""


@dataclass(frozen=True, slots=True)
class Block:
    """Requests that one variant gets in one turn; every variant gets the same.

    Attributes:
        number: 0-based.
        jobs: in the order they are sent.
        order: indexes of the variants, in the order of their turns.
    """

    number: int
    jobs: tuple[Job, ...]
    order: tuple[int, ...]


def blocks(plan: Plan) -> Iterator[Block]:
    """The blocks of a run.

    A closed loop gets blocks of one test case, as many as ``concurrency`` requests each allow: what disturbs
    a block is a source of error, and only a number of blocks shows its size. Which prompts share a block
    changes from repeat to repeat. An open loop gets one block per repeat with all prompts shuffled, so that
    arrivals mix.

    The variants' order is rotated from block to block (A-B-B-A with two) such that each comes first equally
    often in every test case, up to one: a drift of the machine then falls on all of them alike.
    """
    chosen = random.Random(plan.seed)
    variants = list(range(len(plan.targets)))
    chosen.shuffle(variants)
    for number, (case, part, pairs) in enumerate(_pairs(plan, chosen)):
        turn = (case + part) % len(variants)
        jobs = tuple(plan.job(prompt, repeat, number) for prompt, repeat in pairs)
        yield Block(number, jobs, tuple(variants[turn:] + variants[:turn]))


def _pairs(plan: Plan, chosen: random.Random) -> Iterator[tuple[int, int, list[tuple[Prompt, int]]]]:
    """Test case index, how many blocks it had before, and the (prompt, repeat) pairs of each block."""
    if plan.arrival != "closed":
        for repeat in range(plan.repeats):
            shuffled = list(plan.prompts)
            chosen.shuffle(shuffled)
            yield 0, repeat, [(prompt, repeat) for prompt in shuffled]
        return
    cases: dict[str, list[Prompt]] = {}
    for prompt in plan.prompts:
        cases.setdefault(prompt.test_case, []).append(prompt)
    split = [_split(prompts, plan, chosen) for prompts in cases.values()]
    for part in range(max(map(len, split))):
        for index, parts in enumerate(split):
            if part < len(parts):
                yield index, part, parts[part]


def _split(prompts: list[Prompt], plan: Plan, chosen: random.Random) -> list[list[tuple[Prompt, int]]]:
    """One test case in as many parts of about equal size as have ``concurrency`` requests each."""
    pairs: list[tuple[Prompt, int]] = []
    for repeat in range(plan.repeats):
        shuffled = list(prompts)
        chosen.shuffle(shuffled)
        pairs.extend((prompt, repeat) for prompt in shuffled)
    parts = max(1, len(pairs) // plan.concurrency)
    ends = [len(pairs) * part // parts for part in range(parts + 1)]
    return [pairs[start:end] for start, end in pairwise(ends)]


def warmup(plan: Plan) -> tuple[Job, ...]:
    """Requests that precede the measured ones, with prompts that no set has, so that no cache is warmed for a
    measured one.
    """
    from specdec.benchmark.plan import Job

    return tuple(
        Job(
            prompt=Prompt(
                id=f"warmup-{number}",
                test_case="warmup",
                prompt_class="warmup",
                text=f"Say something about the number {number}.",
            ),
            repeat=0,
            block=-1,
            output_tokens=min(plan.output_tokens, WARMUP_TOKENS),
            fixed_length=plan.ignore_eos,
            temperature=plan.temperature,
            warmup=True,
        )
        for number in range(1, plan.warmup + 1)
    )


def arrivals(count: int, *, rate: float, arrival: Arrival, seed: int) -> list[float]:
    """Seconds after the start of a block at which its requests are sent; the same for every variant of the
    block.

    ``constant``: ``i / rate``. ``poisson``: gaps drawn from the exponential distribution with mean ``1 /
    rate``.
    """
    if arrival == "constant":
        return [index / rate for index in range(count)]
    chosen = random.Random(seed)
    times: list[float] = []
    now = 0.0
    for _ in range(count):
        times.append(now)
        now += chosen.expovariate(rate)
    return times
