"""One variant's server: Deployment, Service, who may reach it, and the scripts its containers run.

The Deployment is plain data: the 1.27 schema behind cdk8s-plus-27 drops the claim's
``resourceClaimTemplateName`` without a word.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

from charts.device_claims import pod_devices
from charts.model_storage import claim_name
from charts.names import BENCHMARK, CLIENT_LABEL, INSTANCE_TYPE_LABEL, NAMESPACE, PORT, SERVER, labels
from charts.objects import digest, metadata, script
from specdec.catalog.sources import AWS_CLI_IMAGE
from specdec.pod.ran import VERSIONS
from specdec.serving import artifact_configuration, artifact_path, command_line
from specdec.serving.artifact import expected_library_configuration
from specdec.serving.command import ARTIFACT_DIR, SCRATCH_DIR, STORE
from specdec.serving.layout import ARTIFACT_MARKER, model_marker
from specdec.serving.limits import STAGING_SECONDS, start_seconds

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment, Variant

Object = dict[str, Any]

SCRIPTS = (
    "artifact.sh",
    "restore.sh",
    "keep.sh",
    "serve.sh",
    "ready.sh",
    "drain.sh",
    "versions.sh",
    "versions.py",
)
HOME = "/opt/specdec"

SHARED_MEMORY = "64Gi"
"""Shared memory of the server, part of its memory: the workers of one tensor-parallel group talk through
it.
"""

COMPANION_CPU = "500m"
COMPANION_MEMORY = "2Gi"
"""Asked for by the container that restores the artifact, and again by the one that keeps it."""

COMPANION_MEMORY_LIMIT = "8Gi"
"""The AWS CLI takes buffers by the bandwidth it finds, and these nodes have much."""

PART_OF_A_NODE = {"specdec/share": "part"}
"""Label of the pods of a server smaller than a node."""

SECURITY: dict[str, Object] = {
    # The Neuron image runs as root and writes below its home.
    "strict": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "capabilities": {"capabilities": {"add": ["IPC_LOCK", "SYS_NICE"]}},
    "privileged": {"privileged": True},
}
"""Security context of the server's container by the value of ``serving.security``."""

UNPRIVILEGED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Security context of everything beside the server."""

DRAIN_SECONDS = 120
GRACE_SECONDS = DRAIN_SECONDS + 60
"""After which the kubelet ends a server that was told to leave."""


class VllmService(cdk8s.Chart):
    """Everything of one variant. Two variants differ in names, claim, command line and artifact, and in
    nothing else.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        experiment: Experiment,
        variant: Variant,
        region: str,
        bucket: str,
    ) -> None:
        super().__init__(scope, id_, disable_resource_name_hashes=True)
        selector = labels(variant.service, "server")
        texts = {name: script(name) for name in SCRIPTS}
        scripts = f"{variant.service}-{digest(list(texts.values()))}"
        k8s.KubeConfigMap(self, "scripts", metadata=metadata(scripts, selector), data=texts)
        deployment = cdk8s.ApiObject(
            self,
            "deployment",
            api_version="apps/v1",
            kind="Deployment",
            metadata=cdk8s.ApiObjectMetadata(name=variant.service, namespace=NAMESPACE, labels=selector),
        )
        spec = deployment_spec(experiment, variant, region=region, bucket=bucket, scripts=scripts)
        deployment.add_json_patch(cdk8s.JsonPatch.add("/spec", spec))
        k8s.KubeService(
            self,
            "service",
            metadata=metadata(variant.service, selector),
            spec=k8s.ServiceSpec(
                type="ClusterIP",
                selector=selector,
                ports=[
                    k8s.ServicePort(name="http", port=PORT, target_port=k8s.IntOrString.from_string("http"))
                ],
            ),
        )
        k8s.KubeNetworkPolicy(
            self, "policy", metadata=metadata(variant.service, selector), spec=_policy(selector)
        )


def deployment_spec(
    experiment: Experiment, variant: Variant, *, region: str, bucket: str, scripts: str
) -> Object:
    """``spec`` of the Deployment.

    Args:
        experiment: a checked experiment.
        variant: one of its variants.
        region: AWS region of the bucket.
        bucket: its name; may be a token that the CDK resolves.
        scripts: name of the config map with the scripts.
    """
    selector = labels(variant.service, "server")
    return {
        # Where one is served after the other, the first phase is the baseline's; the benchmark goes on.
        "replicas": int(not experiment.sequential or variant.name == experiment.baseline.name),
        # A rolling update would wait for devices that only the old pod can free.
        "strategy": {"type": "Recreate"},
        "progressDeadlineSeconds": start_seconds(experiment),
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": selector},
        "template": {
            "metadata": {"labels": {**selector, **(PART_OF_A_NODE if _shares(experiment, variant) else {})}},
            "spec": _pod(experiment, variant, region=region, bucket=bucket, scripts=scripts),
        },
    }


def _pod(experiment: Experiment, variant: Variant, *, region: str, bucket: str, scripts: str) -> Object:
    extra, _ = pod_devices(experiment, experiment.settings(variant).devices)
    artifact_environment = _artifact_environment(experiment, variant, region=region, bucket=bucket)
    image = experiment.network.image(AWS_CLI_IMAGE, region)
    return {
        **(_beside_others() if _shares(experiment, variant) else {}),
        "automountServiceAccountToken": False,
        "containers": [
            _server(experiment, variant, region),
            {
                **_companion("keep", "keep.sh", artifact_environment, image),
                # The pod is not ready, and so not measured, while its artifact is on its way to the bucket.
                "readinessProbe": {
                    "exec": {"command": ["test", "-e", f"{ARTIFACT_DIR}.whole"]},
                    "periodSeconds": 10,
                    "timeoutSeconds": 5,
                },
            },
        ],
        "enableServiceLinks": False,
        "initContainers": [
            _companion("restore", "restore.sh", artifact_environment, image),
            _versions(experiment.network.image(command_line(experiment, variant).image, region)),
        ],
        "nodeSelector": {INSTANCE_TYPE_LABEL: experiment.capacity.instance_type},
        **extra,
        "serviceAccountName": SERVER,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "tolerations": [{"key": "aws.amazon.com/neuron", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [
            {"name": "scripts", "configMap": {"name": scripts, "defaultMode": 0o555}},
            {
                "name": "models",
                "persistentVolumeClaim": {
                    "claimName": claim_name(region, experiment.placement[region].bucket),
                    "readOnly": True,
                },
            },
            {"name": "artifacts", "emptyDir": {"sizeLimit": "600Gi"}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "300Gi"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}},
        ],
    }


def _shares(experiment: Experiment, variant: Variant) -> bool:
    """Whether a server leaves devices of its node to others."""
    return experiment.settings(variant).devices < experiment.instance.devices


def _beside_others() -> Object:
    """Places servers smaller than a node together. Spread over two nodes, they would leave no whole node for
    a server that needs one.
    """
    term = {"labelSelector": {"matchLabels": PART_OF_A_NODE}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def _server(experiment: Experiment, variant: Variant, region: str) -> Object:
    command = command_line(experiment, variant)
    devices = experiment.settings(variant).devices
    _, claims = pod_devices(experiment, devices)
    cpu, memory = experiment.instance.server_share(devices)
    environment = {
        **command.env,
        "ARTIFACT_DIR": ARTIFACT_DIR,
        # Only NxD Inference's artifact is never written after the compile; the native stack's is a cache.
        "ARTIFACT_FROZEN": "" if experiment.stack.generation == "native" else "yes",
        "SERVED_MODEL": experiment.serving.target,
        "WARM_ARGUMENTS": json.dumps(command.warm_args[2:], separators=(",", ":")),
    }
    pages = experiment.instance.hugepages_mib
    huge = {"hugepages-2Mi": f"{pages}Mi"} if pages else {}
    requests = {"cpu": str(cpu), "memory": f"{memory}Gi", **huge, **claims.get("requests", {})}
    limits = {"memory": f"{memory}Gi", **huge, **claims.get("limits", {})}
    return {
        "name": "server",
        "image": experiment.network.image(command.image, region),
        "command": ["bash", f"{HOME}/serve.sh"],
        "args": list(command.args),
        "env": _environment(environment),
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": {
            "requests": requests,
            "limits": limits,
            **({"claims": claims["claims"]} if "claims" in claims else {}),
        },
        "startupProbe": {
            "httpGet": {"path": "/health", "port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": experiment.serving.startup_minutes * 6,
        },
        "readinessProbe": {
            "exec": {"command": ["bash", f"{HOME}/ready.sh"]},
            "periodSeconds": 15,
            "timeoutSeconds": 12,
            "failureThreshold": 3,
        },
        # A long prefill blocks the engine; only minutes of silence mean that it is gone.
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": "http"},
            "periodSeconds": 60,
            "timeoutSeconds": 30,
            "failureThreshold": 5,
        },
        "lifecycle": {"preStop": {"exec": {"command": ["bash", f"{HOME}/drain.sh"]}}},
        "securityContext": SECURITY[experiment.serving.security],
        "volumeMounts": [
            {"name": "scripts", "mountPath": HOME, "readOnly": True},
            {"name": "models", "mountPath": STORE.rstrip("/"), "readOnly": True},
            {"name": "artifacts", "mountPath": "/artifacts"},
            {"name": "scratch", "mountPath": SCRATCH_DIR},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the container's own
        ],
    }


def _companion(name: str, program: str, environment: dict[str, str], image: str) -> Object:
    return {
        "name": name,
        "image": image,
        "command": ["bash", f"{HOME}/{program}"],
        "env": [
            *_environment(environment),
            {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        ],
        "resources": {
            "requests": {"cpu": COMPANION_CPU, "memory": COMPANION_MEMORY},
            "limits": {"memory": COMPANION_MEMORY_LIMIT},
        },
        "securityContext": UNPRIVILEGED,
        "volumeMounts": [
            {"name": "scripts", "mountPath": HOME, "readOnly": True},
            {"name": "artifacts", "mountPath": "/artifacts"},
        ],
    }


def _versions(image: str) -> Object:
    """Tells what the server's own image and this node are, in last words that the pod's status keeps."""
    return {
        "name": VERSIONS,
        "image": image,
        "command": ["bash", f"{HOME}/versions.sh"],
        "resources": {
            "requests": {"cpu": COMPANION_CPU, "memory": COMPANION_MEMORY},
            "limits": {"memory": COMPANION_MEMORY},
        },
        "securityContext": UNPRIVILEGED,
        "volumeMounts": [{"name": "scripts", "mountPath": HOME, "readOnly": True}],
    }


def _artifact_environment(
    experiment: Experiment, variant: Variant, *, region: str, bucket: str
) -> dict[str, str]:
    return {
        "ARTIFACT": artifact_path(experiment, variant),
        "ARTIFACT_DIR": ARTIFACT_DIR,
        "AWS_REGION": region,
        "BUCKET": bucket,
        "CONFIGURATION": json.dumps(
            artifact_configuration(experiment, variant), sort_keys=True, separators=(",", ":")
        ),
        "HOME": "/artifacts",
        "LIBRARY_CONFIGURATION": json.dumps(
            expected_library_configuration(experiment, variant) or {}, sort_keys=True, separators=(",", ":")
        ),
        "MARKER": ARTIFACT_MARKER,
        "MODEL_MARKERS": " ".join(
            model_marker(model, experiment.model(model).revision) for model in experiment.models_of(variant)
        ),
        "SERVER": f"http://127.0.0.1:{PORT}",
        "STAGING_SECONDS": str(STAGING_SECONDS),
        "TMPDIR": "/artifacts",
    }


def _environment(values: dict[str, str]) -> list[Object]:
    return [{"name": name, "value": values[name]} for name in sorted(values)]


def _policy(selector: dict[str, str]) -> k8s.NetworkPolicySpec:
    ours = k8s.LabelSelector(match_labels={"kubernetes.io/metadata.name": NAMESPACE})
    benchmark = k8s.LabelSelector(match_labels={"app.kubernetes.io/component": BENCHMARK})
    users = k8s.LabelSelector(match_labels={CLIENT_LABEL: "true"})
    return k8s.NetworkPolicySpec(
        pod_selector=k8s.LabelSelector(match_labels=selector),
        policy_types=["Ingress"],
        ingress=[
            k8s.NetworkPolicyIngressRule(
                from_=[
                    k8s.NetworkPolicyPeer(namespace_selector=ours, pod_selector=benchmark),
                    k8s.NetworkPolicyPeer(namespace_selector=users),
                ],
                ports=[k8s.NetworkPolicyPort(port=k8s.IntOrString.from_number(PORT), protocol="TCP")],
            )
        ],
    )
