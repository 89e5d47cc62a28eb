"""What of an experiment this machine can measure in minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from specdec.prompts.sets import SHIPPED, load, of_test_cases

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan
    from specdec.experiment.fields import Experiment
    from specdec.rehearsal.engines import Service

PROMPTS = "rehearsal"
"""Prompt set of this machine: few and short, of the same classes, in forms that a model of 135M parameters
can follow.
"""
OUTPUT_TOKENS = 96


def cut(experiment: Experiment, output_tokens: int) -> Experiment:
    """The experiment with the exact lane alone, one request at a time, and no more output than
    ``output_tokens``.

    The user's own prompts stay; a shipped set gives way to ``PROMPTS``.
    """
    asked = experiment.benchmark
    benchmark = asked.model_copy(
        update={
            "prompts": PROMPTS if asked.prompts in SHIPPED else asked.prompts,
            "output_tokens": min(asked.output_tokens, output_tokens),
            "concurrency": 1,
            "repeats": 1,
            "lanes": ("exact",),
            "schedule": "alternate",
            "arrival": "closed",
            "rate": None,
            "loads": (),
        }
    )
    return experiment.model_copy(update={"benchmark": benchmark})


def require_test_cases(experiment: Experiment, base: Path | None, test_cases: tuple[str, ...]) -> None:
    """Reads the prompts as they will be measured, before anything is started for them.

    Args:
        experiment: whose prompts are asked.
        base: folder that a relative prompt file starts from.
        test_cases: to be measured; all where there are none.

    Raises:
        BadInputError: a wrong prompt file, or a test case that it does not have.
    """
    of_test_cases(load(cut(experiment, OUTPUT_TOKENS).benchmark.prompts, base=base), test_cases)


def as_served(plan: Plan, services: Sequence[Service]) -> Plan:
    """The plan with what each service really is, in place of what the experiment asks of the accelerator."""
    real = {service.variant: service for service in services}
    targets = tuple(
        replace(
            target,
            model=real[target.variant].model,
            mode=real[target.variant].mode,
            draft=real[target.variant].draft,
            window=real[target.variant].window,
        )
        for target in plan.targets
    )
    return replace(plan, targets=targets, warmup=1)
