"""Time per token of simulated services under known disturbances, on the product's own schedule. Written apart
from the analysis: nothing of it is used here.

Every disturbance is a factor on a request's time per token, so that its logarithm is what is drawn.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from specdec.benchmark.load import SELF_CHECK as SECOND_ARM
from specdec.benchmark.load import Block, blocks
from specdec.benchmark.plan import Plan, Target
from specdec.prompts.sets import Prompt
from specdec.runs.record import EXACT, SELF_CHECK, RequestRecord
from tests.analysis.simulate import record

TOKENS = 101
PLAIN_STEP = 0.045


@dataclass(frozen=True)
class Disturbance:
    """What may befall a run; standard deviations of logarithms.

    Attributes:
        request: of each request, normal.
        heavy: whether requests are drawn from Student's t with 3 degrees of freedom, scaled to ``request``.
        prompt: of each prompt's true ratio of the two services, the same in all its repeats.
        block: of each turn of a variant, on all its requests.
        slow: of a disturbance that changes from request to request with correlation ``memory``.
        memory: see ``slow``.
        drift: by how much the machine is slower at the end of the run than at its start.
        minute: of a twentieth of the run's turns, one after another from a random one on.
        fresh: by how much the turns of half of the connections, drawn anew for each turn, are faster.
        later: by how much everything but the first connection to the baseline is slower, all the time.
        unequal: factors on ``request``, test case by test case, in turn.
    """

    request: float = 0.01
    heavy: bool = False
    prompt: float = 0.0
    block: float = 0.0
    slow: float = 0.0
    memory: float = 0.95
    drift: float = 0.0
    minute: float = 0.0
    fresh: float = 0.0
    later: float = 0.0
    unequal: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class Design:
    """What is asked; by default the shipped prompts' eight test cases of four prompts, as shipped."""

    cases: int = 8
    prompts: int = 4
    repeats: int = 2
    concurrency: int = 4
    self_check: float = 0.0
    effects: tuple[float, ...] = field(default=(0.0,))


def run(chance: random.Random, disturbance: Disturbance, design: Design) -> list[RequestRecord]:
    """Records of two services of which the second is faster by ``exp(effect) - 1``, in the order they were
    sent.
    """
    plan = plan_of(design, chance.randrange(1 << 30))
    gains = true_gains(chance, disturbance, plan, design)
    return measure(chance, disturbance, design, plan, list(blocks(plan)), gains)


def true_gains(
    chance: random.Random, disturbance: Disturbance, plan: Plan, design: Design
) -> dict[str, float]:
    """The logarithm of each prompt's true ratio."""
    gains: dict[str, float] = {}
    for number, prompt in enumerate(plan.prompts):
        case = number // design.prompts
        gains[prompt.id] = design.effects[case % len(design.effects)] + chance.gauss(0, disturbance.prompt)
    return gains


def measure(
    chance: random.Random,
    disturbance: Disturbance,
    design: Design,
    plan: Plan,
    planned: Sequence[Block],
    gains: dict[str, float],
    *,
    run: str = "run",
    slower: float = 0.0,
    gain_lost: float = 0.0,
) -> list[RequestRecord]:
    """Records of these blocks on one machine.

    Args:
        chance: where chance comes from.
        disturbance: what befalls them.
        design: what the plan was made of.
        plan: the plan.
        planned: blocks of it, in order.
        gains: see ``true_gains``.
        run: id that the records carry.
        slower: logarithm of the factor by which this machine is slower in everything.
        gain_lost: what the speculative variant gains less on this machine, as a logarithm.
    """
    turns = [(block, index) for block in planned for index in block.order]
    requests = sum(len(block.jobs) for block, _ in turns)
    draw = _draw(chance, disturbance)
    slow = chance.gauss(0, disturbance.slow)
    records: list[RequestRecord] = []
    # What a disturbance does not need is not drawn, so that the others stay what they were.
    bad = chance.randrange(len(turns)) if disturbance.minute else 0
    for number, (block, index) in enumerate(turns):
        variant = "baseline" if index == SECOND_ARM else plan.targets[index].variant
        shared = chance.gauss(0, disturbance.block)
        if disturbance.fresh:
            shared -= disturbance.fresh * chance.randrange(2)
        shared += disturbance.later * (index != 0)
        shared += disturbance.minute * (0 <= number - bad < max(1, len(turns) / 20))
        for job in block.jobs:
            slow = disturbance.memory * slow + chance.gauss(
                0, disturbance.slow * math.sqrt(1 - disturbance.memory**2)
            )
            case = int(job.prompt.test_case.removeprefix("case-"))
            own = disturbance.unequal[case % len(disturbance.unequal)] * draw()
            drift = disturbance.drift * len(records) / requests
            gain = gains[job.prompt.id] - gain_lost if variant == "fast" else 0.0
            tpot = PLAIN_STEP * math.exp(own + shared + slow + drift + slower - gain)
            records.append(
                record(
                    variant,
                    job.prompt.id,
                    times=(0.2, 0.2 + tpot * (TOKENS - 1)),
                    counts=(1, TOKENS),
                    test_case=job.prompt.test_case,
                    repeat=job.repeat,
                    block=job.block,
                    concurrency=design.concurrency,
                    requested_tokens=TOKENS,
                    run=run,
                    lane=SELF_CHECK if index == SECOND_ARM else EXACT,
                )
            )
    return records


def _draw(chance: random.Random, disturbance: Disturbance) -> Callable[[], float]:
    if not disturbance.heavy:
        return lambda: chance.gauss(0, disturbance.request)
    # A t variable of 3 degrees has variance 3.
    scale = disturbance.request / math.sqrt(3)
    return lambda: scale * chance.gauss(0, 1) / math.sqrt(chance.gammavariate(1.5, 2) / 3)


def plan_of(design: Design, seed: int) -> Plan:
    """The plan of a design."""

    def target(name: str, role: Any) -> Target:
        return Target(variant=name, url="http://127.0.0.1:1", role=role)

    names = [
        Prompt(
            id=f"case-{case}-p{number}",
            test_case=f"case-{case}",
            prompt_class="open",
            text=f"{case} {number}",
        )
        for case in range(design.cases)
        for number in range(design.prompts)
    ]
    return Plan(
        run="run",
        experiment="e",
        configuration={},
        configuration_hash="",
        targets=(target("baseline", "baseline"), target("fast", "speculative")),
        prompts=tuple(names),
        concurrency=design.concurrency,
        repeats=design.repeats,
        self_check=design.self_check,
        seed=seed,
        output_tokens=TOKENS,
    )
