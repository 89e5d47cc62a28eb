"""What a run will send and about how long it will take, printed before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec.benchmark.load import WARMUP_TOKENS, measured_requests, self_check_requests
from specdec.experiment.phases import phase_order

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan

TPOT = (0.01, 0.05)
"""Seconds per output token that most servers of large models lie between, for the guess before a run."""


def announcement(plan: Plan) -> str:
    """One sentence: prompts, requests, tokens and about how long."""
    prompts, cases = len(plan.prompts), len({prompt.test_case for prompt in plan.prompts})
    parts = [
        f"{_count(plan.total, 'request')}: {_count(prompts, 'prompt')} in {_count(cases, 'test case')}"
        f" to {_count(len(plan.targets), 'target')}, {plan.warmup} of each for warming up"
    ]
    if again := self_check_requests(plan):
        name = plan.targets[0].variant
        parts.append(f"{_count(again, 'request')} of it measure {name} against itself (--self-check)")
    equal = sum(prompt.listed - 1 for prompt in plan.prompts)
    if equal:
        parts.append(
            f"{_count(equal, 'prompt')} of the file left out because they equal others; --repeats sends"
            " prompts again"
        )
    if plan.seconds is not None:
        return "; ".join([f"for {duration(plan.seconds)}, at most {parts[0]}", *parts[1:]])
    low, high = (seconds(plan, tpot) for tpot in TPOT)
    words = (
        f"about {duration(low)}"
        if duration(low) == duration(high)
        else f"{duration(low)} to {duration(high)}"
    )
    parts.append(f"{words} if a token takes {1000 * TPOT[0]:.0f} to {1000 * TPOT[1]:.0f} ms")
    return "; ".join(parts)


def seconds(plan: Plan, tpot: float) -> float:
    """About how long a run takes: tokens one after another in each place of a closed loop, or the time in
    which the requests of an open loop are sent, and variants one after another where they take turns. Starts
    of servers between phases are left out.

    Args:
        plan: the run.
        tpot: seconds per output token.
    """
    loads = plan.loads or (plan.concurrency if plan.rate is None else plan.rate,)
    tokens = [prompt.output_tokens or plan.output_tokens for prompt in plan.prompts]
    each = sum(tokens) / len(tokens) * tpot
    sequential = plan.schedule == "sequential"
    # Of one variant, or of one phase.
    requests = len(plan.prompts) if sequential else measured_requests(plan) / len(loads)
    spent = 0.0
    for load in loads:
        at_once = min(load, requests) if plan.arrival == "closed" else requests
        spent += max(requests / load if plan.arrival != "closed" else 0.0, requests / at_once * each)
    spent += plan.warmup / plan.concurrency * min(WARMUP_TOKENS, plan.output_tokens) * tpot
    if sequential:
        return spent * len(phase_order(len(plan.targets), plan.repeats))
    if plan.schedule == "concurrent":
        return spent
    return spent * (len(plan.targets) + self_check_requests(plan) / measured_requests(plan))


def duration(time: float) -> str:
    """A time as people write it: ``40 s``, ``5 min``, ``1.5 h``."""
    if time < 100:
        return f"{max(1.0, time):.0f} s"
    return f"{time / 60:.0f} min" if time < 6000 else f"{time / 3600:.1f} h"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
