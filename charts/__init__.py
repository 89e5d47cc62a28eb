"""Kubernetes objects of the experiment, as cdk8s charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cdk8s

from charts.device_claims import DeviceClaims
from charts.llmperf import LlmPerf
from charts.model_staging import ModelStaging
from charts.model_storage import ModelStorage
from charts.namespace import Namespace
from charts.phase_access import PhaseAccess
from charts.vllm_service import VllmService

if TYPE_CHECKING:
    from pathlib import Path

    from specdec.experiment.fields import Experiment


def build(
    experiment: Experiment, *, region: str, bucket: str, base: Path | None = None
) -> dict[str, cdk8s.Chart]:
    """Every chart of the experiment in one region, in the order in which they are applied.

    Keys: ``namespace``, ``device-claims`` (absent with the device plugin), ``model-storage``,
    ``model-staging``, one for each variant by its service name, ``phases`` (where variants are served one
    after the other), ``llmperf``.

    Args:
        experiment: a checked experiment.
        region: AWS region.
        bucket: name of the bucket; may be a token that the CDK resolves.
        base: folder that a relative ``benchmark.prompts`` path starts from; the current one by default.
    """
    app, network = cdk8s.App(), experiment.network
    # In a VPC that was there, and with endpoints or mirrors, what pods need has addresses of its own range.
    inside = bool(experiment.placement[region].vpc_id) or not network.internet or bool(network.open_ports)
    charts: dict[str, cdk8s.Chart] = {
        "namespace": Namespace(
            app,
            "namespace",
            security=experiment.serving.security,
            vpc_cidr=None if inside else experiment.cluster.vpc_cidr,
            open_ports=network.open_ports,
        )
    }
    if experiment.serving.allocation == "dra":
        charts["device-claims"] = DeviceClaims(app, "device-claims", experiment=experiment)
    charts["model-storage"] = ModelStorage(
        app, "model-storage", region=region, bucket=bucket, kept_bucket=experiment.placement[region].bucket
    )
    charts["model-staging"] = ModelStaging(
        app, "model-staging", experiment=experiment, region=region, bucket=bucket
    )
    for variant in experiment.variants:
        charts[variant.service] = VllmService(
            app, variant.service, experiment=experiment, variant=variant, region=region, bucket=bucket
        )
    if experiment.sequential:
        charts["phases"] = PhaseAccess(app, "phases", experiment=experiment)
    charts["llmperf"] = LlmPerf(
        app, "llmperf", experiment=experiment, region=region, bucket=bucket, base=base
    )
    return charts
