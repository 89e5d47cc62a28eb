"""Simulated runs over load: two services whose step grows with the batch, so that the crossing is known."""

from __future__ import annotations

import random
from dataclasses import dataclass

from specdec.golden.truth import Speculation, crossing
from specdec.runs.record import RequestRecord

from .simulate import record

LOADS = (1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Step and what each further sequence adds, seconds; tokens per step by acceptance, 0 for a plain one."""

    step: float
    batch_step: float
    acceptance: float = 0.0
    window: int = 4

    @property
    def tokens_per_step(self) -> float:
        """Expected."""
        return Speculation(self.acceptance, self.window).mean if self.acceptance else 1.0


PLAIN = Service(step=0.045, batch_step=0.0006)
DRAFTED = Service(step=0.075, batch_step=0.012, acceptance=0.7)


def truth(plain: Service = PLAIN, drafted: Service = DRAFTED) -> float | None:
    """The crossing of two services."""
    return crossing(
        (plain.step, plain.batch_step), (drafted.step, drafted.batch_step), drafted.tokens_per_step
    )


def run(
    services: dict[str, Service],
    seed: int,
    *,
    prompts: int = 8,
    repeats: int = 2,
    tokens: int = 200,
    prompt_noise: float = 0.08,
    block_noise: float = 0.02,
    loads: tuple[float, ...] = LOADS,
    prompt_class: str = "open",
) -> list[RequestRecord]:
    """Records of every service at every load. Prompts differ in what they cost, alike at all loads of a
    service; a block of ``load`` requests shares a disturbance.
    """
    chance = random.Random(f"loads {seed}")
    found: list[RequestRecord] = []
    cost = {(name, p): chance.lognormvariate(0, prompt_noise) for name in services for p in range(prompts)}
    accepted = {(name, p): chance.getrandbits(30) for name in services for p in range(prompts)}
    block = 0
    for load in loads:
        for repeat in range(repeats):
            for first in range(0, prompts, int(load)):
                for name, service in services.items():
                    disturbed = chance.lognormvariate(0, block_noise)
                    for p in range(first, min(prompts, first + int(load))):
                        draw = random.Random(accepted[name, p])
                        step = (service.step + service.batch_step * (load - 1)) * cost[name, p] * disturbed
                        now, times, counts = 0.2, [0.2], [1]
                        while counts[-1] < tokens:
                            now += step * max(0.5, chance.gauss(1, 0.02))
                            more = (
                                Speculation(service.acceptance, service.window).draw(draw)
                                if service.acceptance
                                else 1
                            )
                            times.append(now)
                            counts.append(min(tokens, counts[-1] + more))
                        found.append(
                            record(
                                name,
                                f"p{p}",
                                times=times,
                                counts=counts,
                                repeat=repeat,
                                block=block,
                                concurrency=int(load),
                                sent=1000.0 * block,
                                prompt_class=prompt_class,
                            )
                        )
                block += 1
    return found
