"""The rehearsal's measurement over load: a draft model that pays for one request at a time, and not for four.

Look-up drafting proposes for nothing and never stops paying on text that repeats itself. A draft model costs
compute, which one request leaves idle and four do not: on two cores this shows what a full batch shows on an
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

LOADS = (1.0, 4.0)
"""Requests in flight: alone, and as many as the servers decode together."""

WINDOW = 4
"""Longer windows cost this draft more than they bring."""

OUTPUT_TOKENS = 48

TEST_CASES = ("story", "json")
"""One open and one structured."""

PROMPTS_EACH = 4
"""As many as are in flight at most, so that what shares a batch is of one test case."""


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
    changes = {"loads": LOADS, "repeats": 2, "prompts": local.PROMPTS, "self_check": 0.0}
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
