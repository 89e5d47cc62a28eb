"""Which request is sent when: blocks, the order of variants in them, arrival times. Pure; a seed fixes
everything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from specdec.benchmark.meeting import ALONE, Share
from specdec.benchmark.self_check import Candidate, chosen
from specdec.experiment.phases import phase_order
from specdec.prompts.sets import Prompt

if TYPE_CHECKING:
    from specdec.benchmark.plan import Arrival, Job, Plan

WARMUP_TOKENS = 32
"""Tokens of a warm-up request: enough to open connections and fill caches of code, too few to cost an
accelerator much.
"""


SELF_CHECK = -1
"""In the order of a block: the baseline once more, to be measured against itself."""


@dataclass(frozen=True, slots=True)
class Block:
    """Requests that one variant gets in one turn; every variant gets the same.

    Attributes:
        number: 0-based.
        jobs: in the order they are sent.
        order: indexes of the variants, in the order of their turns; ``SELF_CHECK`` among them in some
            blocks.
        plan: the run's plan at the block's load.
        visit: 0-based, how often the block's load was visited before.
        held: whether the load is kept up until the last of the jobs has ended.
        share: which of the jobs are this client's.
    """

    number: int
    jobs: tuple[Job, ...]
    order: tuple[int, ...]
    plan: Plan
    visit: int
    held: bool
    share: Share = ALONE

    @property
    def senders(self) -> int:
        """Clients that have something to send: no more than requests in flight."""
        closed = self.plan.arrival == "closed" or self.number < 0
        return min(self.share.of, self.plan.concurrency) if closed else self.share.of

    @property
    def own(self) -> tuple[Job, ...]:
        """The jobs of this client: every so-manieth."""
        return self.jobs[self.share.index :: self.senders] if self.share.index < self.senders else ()

    @property
    def width(self) -> int:
        """Requests that this client keeps in flight in a closed loop; those of all clients are the load."""
        whole = min(self.plan.concurrency, len(self.jobs))
        return len(range(self.share.index, whole, self.senders)) if self.own else 0


def blocks(plan: Plan) -> Iterator[Block]:
    """The blocks of a run.

    A closed loop gets blocks of one test case, as many as ``concurrency`` requests each allow: what disturbs
    a block is a source of error, and only a number of blocks shows its size. Which prompts share a block
    changes from repeat to repeat. An open loop gets one block per repeat with all prompts shuffled, so that
    arrivals mix.

    Several loads are visited ``repeats`` times each, ascending, then descending, and so on: what drifts
    steadily falls on all of them alike. A visit sends every prompt as often as it takes to fill the load.

    The variants' order is rotated from block to block (A-B-B-A with two) such that each comes first equally
    often in every test case, up to one: a drift of the machine then falls on all of them alike. In some
    blocks the baseline has a second turn, see ``specdec.benchmark.self_check``.
    """
    if plan.self_check > 0 and len(plan.targets) > 1:
        yield from _with_self_checks(list(_plain_blocks(plan)), plan)
    else:
        yield from _plain_blocks(plan)


def _plain_blocks(plan: Plan) -> Iterator[Block]:
    draw = random.Random(plan.seed)
    variants = list(range(len(plan.targets)))
    draw.shuffle(variants)
    for number, (point, visit, turn, pairs) in enumerate(_visits(plan, draw)):
        turn %= len(variants)
        jobs = tuple(point.job(prompt, repeat, number) for prompt, repeat in pairs)
        order = tuple(variants[turn:] + variants[:turn])
        yield Block(number, jobs, order, point, visit, held=bool(plan.loads), share=plan.share)


def own_requests(plan: Plan) -> int:
    """Requests that this client sends of a plan that it shares, all variants and the warm-up together."""
    made = [warmup_block(plan), *blocks(plan)]
    return sum(len(block.order) * len(block.own) for block in made)


def _with_self_checks(plain: list[Block], plan: Plan) -> Iterator[Block]:
    """The same blocks, some with a second turn of the baseline; the same share of every load."""
    candidates: dict[tuple[int, float | None], list[tuple[int, Candidate]]] = {}
    asked: set[tuple[str, str]] = set()
    for block in plain:
        prompts = {(job.prompt.test_case, job.prompt.id) for job in block.jobs}
        candidate = Candidate(
            block.order.index(0), len(block.order), block.jobs[0].prompt.test_case, prompts <= asked
        )
        load = block.plan.concurrency, block.plan.rate
        candidates.setdefault(load, []).append((block.number, candidate))
        asked |= prompts
    places = {
        of_load[place][0]: where
        for of_load in candidates.values()
        for place, where in chosen([own for _, own in of_load], plan.self_check, plan.seed).items()
    }
    for block in plain:
        place = places.get(block.number)
        if place == "first":
            yield replace(block, order=(SELF_CHECK, *block.order))
        elif place == "last":
            yield replace(block, order=(*block.order, SELF_CHECK))
        else:
            yield block


def self_check_requests(plan: Plan) -> int:
    """Requests by which the baseline is measured against itself, warm-up left out."""
    return sum(len(block.jobs) for block in blocks(plan) if SELF_CHECK in block.order)


@dataclass(frozen=True, slots=True)
class Phase:
    """A time in which one variant alone is served.

    Attributes:
        variant: index of the variant.
        warmup: requests before the measured ones, as a block.
        blocks: the measured ones; every prompt once.
    """

    variant: int
    warmup: Block
    blocks: tuple[Block, ...]


def phases(plan: Plan) -> Iterator[Phase]:
    """The phases of a sequential run. Every phase sends the same prompts in the same order, so that what a
    server's age does to a prompt is the same in all of them.
    """
    number = 0
    visits = [0] * len(plan.targets)
    for index, variant in enumerate(phase_order(len(plan.targets), plan.repeats)):
        chosen, visit = random.Random(plan.seed), visits[variant]
        visits[variant] += 1
        parts = [_split(prompts, range(visit, visit + 1), plan, chosen) for prompts in _cases(plan)]
        blocks: list[Block] = []
        for _, pairs in _in_turn(parts):
            jobs = (plan.job(prompt, repeat, number) for prompt, repeat in pairs)
            phased = tuple(replace(job, phase=index) for job in jobs)
            blocks.append(Block(number, phased, (variant,), plan, visit, held=False))
            number += 1
        before = warmup_block(plan)
        warming = tuple(replace(job, phase=index) for job in before.jobs)
        yield Phase(variant, replace(before, jobs=warming, order=(variant,)), tuple(blocks))


def measured_requests(plan: Plan) -> int:
    """Requests per variant, warm-up left out; those of all clients."""
    points = [plan.at(load) for load in plan.loads] or [plan]
    return sum(
        plan.repeats * len(prompts) * (_filling(prompts, point) if plan.loads else 1)
        for point in points
        for prompts in _cases(point)
    )


def _visits(plan: Plan, chosen: random.Random) -> Iterator[tuple[Plan, int, int, list[tuple[Prompt, int]]]]:
    """The plan at a block's load, the visit, by how much the variants' order is turned, and the (prompt,
    repeat) pairs.
    """
    if not plan.loads:
        parts = [_split(prompts, range(plan.repeats), plan, chosen) for prompts in _cases(plan)]
        yield from ((plan, 0, turn, pairs) for turn, pairs in _in_turn(parts))
        return
    for visit in range(plan.repeats):
        places = range(len(plan.loads))
        for place in places if visit % 2 == 0 else reversed(places):
            point = plan.at(plan.loads[place])
            parts: list[list[list[tuple[Prompt, int]]]] = []
            for prompts in _cases(point):
                filling = _filling(prompts, point)
                repeats = range(visit * filling, (visit + 1) * filling)
                parts.append(_split(prompts, repeats, point, chosen))
            yield from ((point, visit, visit + turn, pairs) for turn, pairs in _in_turn(parts))


def _in_turn(
    split: list[list[list[tuple[Prompt, int]]]],
) -> Iterator[tuple[int, list[tuple[Prompt, int]]]]:
    """The parts of all test cases in turn, each with its number plus that of its test case."""
    for part in range(max(map(len, split))):
        for case, parts in enumerate(split):
            if part < len(parts):
                yield case + part, parts[part]


def _cases(plan: Plan) -> list[list[Prompt]]:
    """Prompts that are asked together: those of a test case, or all in an open loop."""
    if plan.arrival != "closed":
        return [list(plan.prompts)]
    cases: dict[str, list[Prompt]] = {}
    for prompt in plan.prompts:
        cases.setdefault(prompt.test_case, []).append(prompt)
    return list(cases.values())


def _filling(prompts: list[Prompt], plan: Plan) -> int:
    """How often the prompts must be repeated to fill the plan's load."""
    return -(-plan.concurrency // len(prompts)) if plan.arrival == "closed" else 1


def _split(
    prompts: list[Prompt], repeats: range, plan: Plan, chosen: random.Random
) -> list[list[tuple[Prompt, int]]]:
    """One test case in as many parts of about equal size as have ``concurrency`` requests each; in an open
    loop a part per repeat.
    """
    pairs: list[tuple[Prompt, int]] = []
    for repeat in repeats:
        shuffled = list(prompts)
        chosen.shuffle(shuffled)
        pairs.extend((prompt, repeat) for prompt in shuffled)
    parts = max(1, len(pairs) // plan.concurrency) if plan.arrival == "closed" else len(repeats)
    ends = [len(pairs) * part // parts for part in range(parts + 1)]
    return [pairs[start:end] for start, end in pairwise(ends)]


def warmup_block(plan: Plan) -> Block:
    """The requests that precede the measured ones, as a block before all others."""
    order = tuple(range(len(plan.targets))) + (SELF_CHECK,) * (self_check_requests(plan) > 0)
    return Block(-1, warmup(plan), order, plan, 0, held=False, share=plan.share)


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
