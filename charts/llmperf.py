"""The benchmark pod: it waits for every service, measures both lanes, and leaves the run in the bucket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

from charts.names import BENCHMARK, labels, service_url, short_hash
from charts.objects import PYTHON_IMAGE, digest, empty_dir, environment, metadata, off_instances, quantities, restricted

if TYPE_CHECKING:
    from specdec.experiment import Experiment

ROOT = Path(__file__).parents[1]
POD = Path(__file__).parent / "pod"
HOME = "/opt/specdec"

CODE = ("__init__.py", "benchmark/", "catalog/", "errors.py", "experiment.py", "metrics/", "pod/", "publish/")
"""What the pod imports, below ``specdec``. A manifest has a limit, so the rest stays out; a test imports the pod's entry from this."""

CONFIG_MAP_BYTES = 180_000
"""Source text in one config map: the deployment hands a manifest on whole, and its limit is 200 KB."""

MEASURING_SECONDS = 6 * 3600


def sources() -> dict[str, str]:
    """The pod's own code: path below ``/opt/specdec/code`` to text."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "specdec").rglob("*.py")):
        if path.relative_to(ROOT / "specdec").as_posix().startswith(CODE):
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    return found


def bundles(texts: dict[str, str]) -> list[dict[str, str]]:
    """Splits files into groups that fit a config map, in order, each group as full as the next file allows."""
    groups: list[dict[str, str]] = [{}]
    used = 0
    for path, text in texts.items():
        size = len(text.encode()) + len(path)
        if groups[-1] and used + size > CONFIG_MAP_BYTES:
            groups.append({})
            used = 0
        groups[-1][path] = text
        used += size
    return groups


def key(path: str) -> str:
    """Config map key of a file: slashes are not allowed in one."""
    return path.replace("/", "..")


class LlmPerf(cdk8s.Chart):
    """The Job and the config maps with its code.

    A Job cannot be changed, so its name carries a hash over everything it does; another experiment is another Job.
    """

    def __init__(self, scope: Construct, id_: str, *, experiment: Experiment, region: str, bucket: str) -> None:
        super().__init__(scope, id_, disable_resource_name_hashes=True)
        pod = {path.name: path.read_text(encoding="utf-8") for path in sorted(POD.iterdir()) if path.is_file()}
        settings = {"experiment.json": json.dumps(experiment.resolved(), indent=1, sort_keys=True)}
        projected: list[k8s.VolumeProjection] = []
        for index, (folder, group) in enumerate([("", {**pod, **settings}), *(("code/", group) for group in bundles(sources()))]):
            name = f"llmperf-{index}-{digest([*group.keys(), *group.values()])}"
            k8s.KubeConfigMap(
                self,
                f"files-{index}",
                metadata=metadata(name, labels("llmperf", "benchmark")),
                data={key(path): text for path, text in group.items()},
            )
            items = [k8s.KeyToPath(key=key(path), path=folder + path) for path in group]
            projected.append(k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name=name, items=items)))
        values = {
            "AWS_REGION": region,
            "EXPERIMENT": f"{HOME}/experiment.json",
            "HOME": "/work",
            "PYTHONPATH": f"{HOME}/code",
            "SERVICES": json.dumps({v.name: service_url(v.service) for v in experiment.variants}, separators=(",", ":"), sort_keys=True),
            "STACK": experiment.stack_name(region),
            "WAIT_SECONDS": str(experiment.serving.startup_minutes * 60),
        }
        accelerator = experiment.capacity.instance_type
        suspended = experiment.capacity.desired_nodes == 0
        job = f"llmperf-{short_hash([values, pod, settings, sources(), PYTHON_IMAGE, accelerator])}"
        selector = labels("llmperf", "benchmark")
        k8s.KubeJob(
            self,
            "job",
            metadata=metadata(job, selector),
            spec=k8s.JobSpec(
                active_deadline_seconds=experiment.serving.startup_minutes * 60 + MEASURING_SECONDS,
                backoff_limit=1,
                suspend=suspended,
                template=k8s.PodTemplateSpec(
                    metadata=k8s.ObjectMeta(labels=selector), spec=self._pod(projected, {**values, "BUCKET": bucket}, accelerator)
                ),
            ),
        )

    @staticmethod
    def _pod(projected: list[k8s.VolumeProjection], values: dict[str, str], accelerator: str) -> k8s.PodSpec:
        return k8s.PodSpec(
            affinity=off_instances(accelerator),
            automount_service_account_token=False,
            restart_policy="Never",
            service_account_name=BENCHMARK,
            security_context=k8s.PodSecurityContext(fs_group=1000),
            volumes=[
                k8s.Volume(name="files", projected=k8s.ProjectedVolumeSource(sources=projected)),
                empty_dir("work", "20Gi"),
                empty_dir("tmp", "5Gi"),
            ],
            containers=[
                k8s.Container(
                    name="benchmark",
                    image=PYTHON_IMAGE,
                    command=["bash", f"{HOME}/start.sh"],
                    working_dir="/work",
                    env=environment(values),
                    resources=k8s.ResourceRequirements(requests=quantities(cpu="4", memory="8Gi"), limits=quantities(memory="12Gi")),
                    security_context=restricted(),
                    volume_mounts=[
                        k8s.VolumeMount(name="files", mount_path=HOME, read_only=True),
                        k8s.VolumeMount(name="work", mount_path="/work"),
                        k8s.VolumeMount(name="tmp", mount_path="/tmp"),  # noqa: S108 - the container's own, an emptyDir
                    ],
                )
            ],
        )
