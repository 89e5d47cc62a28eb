"""The benchmark pod: it waits for every service, measures both lanes, and leaves the run in the bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

from charts.names import (
    BENCHMARK,
    INDEX_LABEL,
    MEETING,
    MEETING_PORT,
    NAMESPACE,
    labels,
    service_url,
)
from charts.objects import (
    OWN_BUCKET,
    TCP,
    digest,
    empty_dir,
    environment,
    job_name,
    metadata,
    off_instances,
    ports,
    quantities,
    restricted,
)
from charts.own_prompts import PROMPTS, parts_of, prompt_file, unpacking
from charts.pod_code import packed, sources
from charts.vllm_service import GRACE_SECONDS
from specdec.catalog.sources import PYTHON_IMAGE
from specdec.experiment.prompt_fit import fitting
from specdec.prompts.files import read as read_prompts
from specdec.serving.limits import start_seconds

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment

POD = Path(__file__).parent / "pod"
HOME = "/opt/specdec"


class LlmPerf(cdk8s.Chart):
    """The Job, and the config maps with its code and the user's own prompts.

    The Job waits for the servers however long they take to come, so it starts with the stack and measures
    once there are nodes. It cannot be changed: its name follows from everything it does, and from nothing
    else, so that a budget or an address range leaves a running benchmark alone.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: Experiment,
        region: str,
        bucket: str,
        base: Path | None = None,
    ) -> None:
        super().__init__(scope, id_, disable_resource_name_hashes=True)
        own = prompt_file(experiment.benchmark.prompts, base=base)
        fitting(experiment, base=base)
        measured = experiment.measured(region).resolved()
        texts = {
            "experiment.json": json.dumps(measured, indent=1, sort_keys=True),
            **{
                path.name: path.read_text(encoding="utf-8")
                for path in sorted(POD.glob("*"))
                if path.is_file()
            },
        }
        code = packed(sources())
        files = f"llmperf-{digest([*texts, *texts.values(), code])}"
        selector = labels("llmperf", "benchmark")
        k8s.KubeConfigMap(
            self,
            "files",
            metadata=metadata(files, selector),
            data=texts,
            binary_data={"code.tar.bz2": code},
        )
        prompts = parts_of(read_prompts(own)) if own else {}
        for name, part in prompts.items():
            k8s.KubeConfigMap(
                self, name, metadata=metadata(name, selector), binary_data={f"{name}.bz2": part}
            )
        values = {
            "AWS_REGION": region,
            "CLUSTER": experiment.cluster_name(region),
            "EXPERIMENT": f"{HOME}/experiment.json",
            "HOME": "/work",
            "PYTHONPATH": "/work/code",
            "SERVICES": json.dumps(
                {v.name: service_url(v.service) for v in experiment.variants},
                separators=(",", ":"),
                sort_keys=True,
            ),
            "STACK": experiment.stack_name(region),
            **_together(experiment.benchmark.clients),
            **_phases(experiment),
            "WAIT_SECONDS": str(start_seconds(experiment)),
            **experiment.network.benchmark(region),
        }
        steps = [
            f"python -m tarfile -e {HOME}/code.tar.bz2 /work/code",
            *(unpacking(experiment.benchmark.prompts, prompts) if own else []),
            f"exec bash {HOME}/start.sh",
        ]

        def pod(bucket: str) -> k8s.PodSpec:
            return _pod(files, list(prompts), steps, {**values, "BUCKET": bucket}, experiment, region)

        clients = experiment.benchmark.clients
        if clients > 1:
            self._meeting(selector)
        named = pod(experiment.placement[region].bucket or OWN_BUCKET)
        k8s.KubeJob(
            self,
            "job",
            metadata=metadata(job_name("llmperf", named), selector),
            spec=k8s.JobSpec(
                # A share that fails ends the run: without it the load is not what it says.
                backoff_limit=1 if clients == 1 else 0,
                **_indexed(clients),
                pod_failure_policy=_ignoring_disruptions(),
                template=k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=selector), spec=pod(bucket)),
            ),
        )

    def _meeting(self, selector: Mapping[str, str]) -> None:
        """Where the other pods find the first one, and that they may reach it; network policies add up."""
        first = {**selector, INDEX_LABEL: "0"}
        port = k8s.IntOrString.from_number(MEETING_PORT)
        k8s.KubeService(
            self,
            "meeting",
            metadata=metadata(MEETING, selector),
            spec=k8s.ServiceSpec(
                cluster_ip="None",
                selector=first,
                ports=[k8s.ServicePort(name="meeting", port=MEETING_PORT, target_port=port)],
            ),
        )
        pods = k8s.LabelSelector(match_labels=dict(selector))
        peer, allowed = k8s.NetworkPolicyPeer(pod_selector=pods), ports(TCP, MEETING_PORT)
        k8s.KubeNetworkPolicy(
            self,
            "meeting-policy",
            metadata=metadata(MEETING, selector),
            spec=k8s.NetworkPolicySpec(
                pod_selector=pods,
                policy_types=["Ingress", "Egress"],
                ingress=[k8s.NetworkPolicyIngressRule(from_=[peer], ports=allowed)],
                egress=[k8s.NetworkPolicyEgressRule(to=[peer], ports=allowed)],
            ),
        )


def _together(clients: int) -> dict[str, str]:
    """What several pods must know about each other, apart from their index."""
    if clients == 1:
        return {}
    return {
        "SPECDEC_CLIENTS": str(clients),
        "SPECDEC_MEET": f"{MEETING}.{NAMESPACE}.svc:{MEETING_PORT}",
    }


def _indexed(clients: int) -> dict[str, Any]:
    """Fields of a Job whose pods each have an index, and run at the same time."""
    if clients == 1:
        return {}
    return {"completion_mode": "Indexed", "completions": clients, "parallelism": clients}


def _phases(experiment: Experiment) -> dict[str, str]:
    """What a pod that serves one variant after the other has to know of its Deployments."""
    if not experiment.sequential:
        return {}
    names = {variant.name: variant.service for variant in experiment.variants}
    return {
        "DEPLOYMENTS": json.dumps(names, separators=(",", ":"), sort_keys=True),
        "LEAVE_SECONDS": str(GRACE_SECONDS),
    }


def _ignoring_disruptions() -> k8s.PodFailurePolicy:
    """The eviction of a pod that waits is not a failure of the benchmark."""
    condition = k8s.PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    return k8s.PodFailurePolicy(
        rules=[k8s.PodFailurePolicyRule(action="Ignore", on_pod_conditions=[condition])]
    )


def _places(experiment: Experiment) -> k8s.Affinity:
    """Off the accelerator nodes; clients that share a run each on a node of its own, and so on processors of
    its own.
    """
    off = off_instances(experiment.capacity.instance_type)
    if experiment.benchmark.clients == 1:
        return off
    apart = k8s.PodAffinityTerm(
        label_selector=k8s.LabelSelector(match_labels=labels("llmperf", "benchmark")),
        topology_key="kubernetes.io/hostname",
    )
    return k8s.Affinity(
        node_affinity=off.node_affinity,
        pod_anti_affinity=k8s.PodAntiAffinity(required_during_scheduling_ignored_during_execution=[apart]),
    )


def _pod(
    files: str,
    prompts: list[str],
    steps: list[str],
    values: dict[str, str],
    experiment: Experiment,
    region: str,
) -> k8s.PodSpec:
    parts = [k8s.VolumeProjection(config_map=k8s.ConfigMapProjection(name=name)) for name in prompts]
    own = [k8s.Volume(name="prompts", projected=k8s.ProjectedVolumeSource(sources=parts))] if prompts else []
    mounted = [k8s.VolumeMount(name="prompts", mount_path=PROMPTS, read_only=True)] if prompts else []
    return k8s.PodSpec(
        affinity=_places(experiment),
        # It asks the cluster what the services run on.
        automount_service_account_token=True,
        restart_policy="Never",
        service_account_name=BENCHMARK,
        security_context=k8s.PodSecurityContext(fs_group=1000),
        volumes=[
            k8s.Volume(name="files", config_map=k8s.ConfigMapVolumeSource(name=files)),
            *own,
            empty_dir("work", "20Gi"),
            empty_dir("tmp", "5Gi"),
        ],
        containers=[
            k8s.Container(
                name="benchmark",
                image=experiment.network.image(PYTHON_IMAGE, region),
                command=["bash", "-o", "pipefail", "-c", " && ".join(steps)],
                working_dir="/work",
                env=environment(values),
                resources=k8s.ResourceRequirements(
                    requests=quantities(cpu="4", memory="8Gi"), limits=quantities(memory="12Gi")
                ),
                security_context=restricted(),
                volume_mounts=[
                    k8s.VolumeMount(name="files", mount_path=HOME, read_only=True),
                    *mounted,
                    k8s.VolumeMount(name="work", mount_path="/work"),
                    # An emptyDir, the container's own.
                    k8s.VolumeMount(name="tmp", mount_path="/tmp"),  # noqa: S108
                ],
            )
        ],
    )
