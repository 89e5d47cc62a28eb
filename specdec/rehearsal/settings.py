"""What to rehearse, what a manifest says of it, and how it went."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec.errors import EXIT_FAILED
from specdec.rehearsal import kept, local

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan
    from specdec.experiment.fields import Experiment
    from specdec.rehearsal.engines import Engine, Service
    from specdec.report import Written

QUICK_OUTPUT_TOKENS = 48

EMULATED = {
    "AWS": (
        "an emulator took the stack (ministack): it accepts more than AWS does, and there is no capacity to"
        " run out of"
    ),
    "Kubernetes": "there is no cluster: the manifests that would be applied were recorded, and no pod ran",
    "Trainium": "the services are a small model on this machine's CPU",
}
"""What is not the real thing, as the manifest and the report say it."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to rehearse.

    Attributes:
        experiment: the experiment.
        path: its file.
        runs: folder of runs.
        quick: fewer prompts and shorter answers: for a look at the machinery, too few for a verdict.
        keep: leave the embedded account and the servers running.
        test_cases: only these; all by default.
        load_engine: serves the measurement over load; None leaves it out.
    """

    experiment: Experiment
    path: Path
    runs: Path
    quick: bool = False
    keep: bool = False
    test_cases: tuple[str, ...] = ()
    load_engine: Engine | None = None


@dataclass
class Outcome:
    """How a rehearsal went.

    Attributes:
        status: process exit status.
        folder: the run folder, if anything was measured.
        report: the report, if the run is whole.
        over_load: the report of the measurement over load, if there was one.
        seconds: by phase.
        kept: what was left running.
    """

    status: int = EXIT_FAILED
    folder: Path | None = None
    report: Written | None = None
    over_load: Written | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    kept: list[kept.Kept] = field(default_factory=list[kept.Kept])


def environment_of(settings: Settings, engine: Engine) -> dict[str, Any]:
    """What a manifest says of the rehearsal: the engine, and what is not the real thing."""
    return {
        "engine": engine.facts(),
        "emulated": {
            **EMULATED,
            **{f"engine, {number}": limit for number, limit in enumerate(engine.limits, 1)},
        },
        "experiment_hash": settings.experiment.configuration_hash(),
    }


def plan_of(settings: Settings, services: Sequence[Service], engine: Engine) -> Plan:
    """What the rehearsal measures: the experiment's exact lane, cut to what this machine can do in a few
    minutes.

    The configuration in the manifest is the one that ran; ``environment.experiment_hash`` is that of the
    experiment's file.
    """
    from specdec.benchmark.plan import Plan

    experiment = settings.experiment
    cut = local.cut(experiment, QUICK_OUTPUT_TOKENS if settings.quick else local.OUTPUT_TOKENS)
    plan = Plan.from_experiment(
        cut,
        {s.variant: s.url for s in services},
        base=settings.path.parent,
        environment=environment_of(settings, engine),
    )
    plan = local.as_served(plan, services)
    if settings.test_cases:
        plan = plan.only(settings.test_cases)
    if settings.quick:
        first = {prompt.test_case: prompt for prompt in reversed(plan.prompts)}
        plan = dataclasses.replace(
            plan, prompts=tuple(prompt for prompt in plan.prompts if first[prompt.test_case] is prompt)
        )
    return plan
