"""The CDK app around the stacks, the same for ``cdk``, for a plain Python run and for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk

from stacks.experiment import ExperimentStack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specdec.experiment.fields import Experiment

_CDK_JSON = Path(__file__).parent.parent / "cdk.json"


def new_app(
    *, outdir: str | None = None, context: Mapping[str, Any] | None = None, validate: bool = True
) -> cdk.App:
    """An app with the feature flags of ``cdk.json``, which only the CDK command would read by itself.

    Args:
        outdir: folder of the cloud assembly; a temporary one by default.
        context: values that win over those of ``cdk.json``.
        validate: whether the CDK checks the templates, which takes longer than making them.
    """
    flags: dict[str, Any] = json.loads(_CDK_JSON.read_text(encoding="utf-8"))["context"]
    return cdk.App(
        outdir=outdir,
        analytics_reporting=False,
        context={**flags, **(context or {})},
        # None leaves the choice to the command line, which False would overrule.
        builtin_cloud_formation_validation=None if validate else False,
    )


def add_stacks(app: cdk.App, experiment: Experiment, *, base: Path | None = None) -> list[ExperimentStack]:
    """One stack per region of the experiment, in its order.

    Args:
        app: that they are added to.
        experiment: a checked experiment.
        base: folder that a relative ``benchmark.prompts`` path starts from; the current one by default.
    """
    return [
        ExperimentStack(app, experiment.stack_name(region), experiment=experiment, region=region, base=base)
        for region in experiment.regions
    ]
