"""The rehearsal's measurement over load: a draft model that pays for one request at a time, not for eight.

Look-up drafting proposes for nothing and never stops paying on text that repeats itself. A draft model costs
compute, which one request leaves idle and eight do not: on two cores this shows what a full batch shows on an
accelerator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specdec.prompts.sets import load, of_test_cases
from specdec.rehearsal import local

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan
    from specdec.experiment.fields import Experiment, Variant
    from specdec.rehearsal.engines import Service

LOADS = (1.0, 8.0)
"""Requests in flight: alone, and as many as the servers decode together. At four the draft costs a tenth to a
quarter, too little for a few minutes to tell; at eight a third."""

WINDOW = 8
"""Alone this draft gains as much at 4 to 8. The longer the window, the more a full batch pays for it."""

OUTPUT_TOKENS = 32

TEST_CASES = ("story", "explanation")
"""Two open ones: one more class needs as many prompts again for the same confidence. Their prompts are short:
the first request of a batch waits for the others' prompts, and its time per token with it. With prompts of
130 tokens that wait was as long as the answer."""

PROMPTS_EACH = 4
"""Together as many as are in flight at most."""

REPEATS = 2
"""Once, blocks of one batch leave too wide an interval."""


def variants(experiment: Experiment) -> tuple[Variant, ...]:
    """The baseline and the first speculative variant, with the window of the local draft."""
    drafted = next((variant for variant in experiment.variants if variant.speculative), None)
    if drafted is None:
        return ()
    return experiment.baseline, drafted.model_copy(update={"window": WINDOW})


def plan_of(experiment: Experiment, services: Sequence[Service], environment: dict[str, Any]) -> Plan:
    """What is measured: the same few prompts at each load, twice."""
    from specdec.benchmark.plan import Plan

    cut = local.cut(experiment, OUTPUT_TOKENS)
    # How far this machine differs from itself is shown by the main run already.
    changes = {"loads": LOADS, "repeats": REPEATS, "prompts": local.PROMPTS, "self_check": 0.0}
    benchmark = cut.benchmark.model_copy(update=changes)
    measured = cut.model_copy(update={"benchmark": benchmark, "variants": variants(experiment)})
    plan = Plan.from_experiment(
        measured, {service.variant: service.url for service in services}, environment=environment
    )
    prompts = of_test_cases(load(local.PROMPTS), TEST_CASES)
    few = tuple(
        prompt
        for case in TEST_CASES
        for prompt in [prompt for prompt in prompts if prompt.test_case == case][:PROMPTS_EACH]
    )
    return replace(local.as_served(plan, services), prompts=few)
