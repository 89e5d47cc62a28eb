"""Jobs that bring the models into the bucket, one for each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

from charts.names import STAGER, labels
from charts.objects import (
    OWN_BUCKET,
    digest,
    empty_dir,
    environment,
    job_name,
    metadata,
    off_instances,
    quantities,
    restricted,
    script,
)
from specdec.catalog.sources import AWS_CLI_IMAGE
from specdec.serving.layout import MODEL_MARKER, model_prefix

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment

SCRIPT = "stage.sh"
DISK = "60Gi"
"""Scratch for the file in transit; the largest file of a model must fit twice."""

_HUB = "${HUB:-https://huggingface.co}"

DEADLINE_SECONDS = 4 * 3600
RETRIES = 6


class ModelStaging(cdk8s.Chart):
    """One Job for each model, on the system nodes: it downloads a file, checks it, uploads it, and writes the
    marker last.

    A Job that finds the marker ends at once. A failed Job stays to be read; the next deployment leaves it
    alone unless something about it changed.
    """

    def __init__(
        self, scope: Construct, id_: str, *, experiment: Experiment, region: str, bucket: str
    ) -> None:
        super().__init__(scope, id_, disable_resource_name_hashes=True)
        text = script(SCRIPT)
        network = experiment.network
        if not network.internet:
            text = text.replace(_HUB, "${HUB:?network.model_hub is not set}")
        config_map = f"stage-{digest([text])}"
        k8s.KubeConfigMap(
            self, "script", metadata=metadata(config_map, labels("stage", "stager")), data={SCRIPT: text}
        )
        for model in experiment.loaded_models:
            facts = experiment.model(model)
            values = {
                "AWS_REGION": region,
                "HF_TOKEN_SECRET": experiment.serving.hf_token_secret or "",
                "HOME": "/scratch",
                "MODEL": model,
                "MODEL_MARKER": MODEL_MARKER,
                "PREFIX": model_prefix(model, facts.revision),
                "REVISION": facts.revision,
                "TMPDIR": "/scratch",
                **network.staging(region),
            }
            slug = model.rsplit("/", 1)[-1].lower().replace(".", "-").replace("_", "-")[:30].strip("-")
            kept = experiment.placement[region].bucket
            image = network.image(AWS_CLI_IMAGE, region)
            accelerator = experiment.capacity.instance_type
            named = self._pod(config_map, {**values, "BUCKET": kept or OWN_BUCKET}, accelerator, image)
            name = job_name(f"stage-{slug}", named)
            selector = labels(name, "stager")
            k8s.KubeJob(
                self,
                f"job-{slug}",
                metadata=metadata(name, selector),
                spec=k8s.JobSpec(
                    active_deadline_seconds=DEADLINE_SECONDS,
                    backoff_limit=RETRIES,
                    template=k8s.PodTemplateSpec(
                        metadata=k8s.ObjectMeta(labels=selector),
                        spec=self._pod(config_map, {**values, "BUCKET": bucket}, accelerator, image),
                    ),
                ),
            )

    @staticmethod
    def _pod(config_map: str, values: dict[str, str], accelerator: str, image: str) -> k8s.PodSpec:
        return k8s.PodSpec(
            affinity=off_instances(accelerator),
            automount_service_account_token=False,
            restart_policy="Never",
            service_account_name=STAGER,
            security_context=k8s.PodSecurityContext(fs_group=1000),
            volumes=[
                k8s.Volume(name="script", config_map=k8s.ConfigMapVolumeSource(name=config_map)),
                empty_dir("scratch", DISK),
            ],
            containers=[
                k8s.Container(
                    name="stage",
                    image=image,
                    command=["bash", f"/opt/specdec/{SCRIPT}"],
                    env=environment(values),
                    resources=k8s.ResourceRequirements(
                        requests=quantities(cpu="1", memory="1Gi", ephemeral_storage=DISK),
                        limits=quantities(memory="3Gi"),
                    ),
                    security_context=restricted(),
                    volume_mounts=[
                        k8s.VolumeMount(name="script", mount_path="/opt/specdec", read_only=True),
                        k8s.VolumeMount(name="scratch", mount_path="/scratch"),
                    ],
                )
            ],
        )
