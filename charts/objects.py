"""Pieces that more than one pod is made of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from cdk8s_plus_27 import k8s

from charts.names import INSTANCE_TYPE_LABEL, NAMESPACE, short_hash

SCRIPTS = Path(__file__).parent / "scripts"


def script(name: str) -> str:
    """Text of one of the scripts that run in pods."""
    return (SCRIPTS / name).read_text(encoding="utf-8")


def environment(values: Mapping[str, str]) -> list[k8s.EnvVar]:
    """Environment entries in order of name, so that the same configuration gives the same manifest."""
    return [k8s.EnvVar(name=name, value=values[name]) for name in sorted(values)]


def quantities(**amounts: str) -> dict[str, k8s.Quantity]:
    """Resource amounts; ``ephemeral_storage`` stands for ``ephemeral-storage``."""
    return {name.replace("_", "-"): k8s.Quantity.from_string(amount) for name, amount in amounts.items()}


def empty_dir(name: str, size: str) -> k8s.Volume:
    """Node disk that lives as long as the pod."""
    return k8s.Volume(
        name=name, empty_dir=k8s.EmptyDirVolumeSource(size_limit=k8s.Quantity.from_string(size))
    )


def off_instances(instance_type: str) -> k8s.Affinity:
    """Keeps a pod off the accelerator nodes, whether they are tainted or not."""
    elsewhere = k8s.NodeSelectorRequirement(key=INSTANCE_TYPE_LABEL, operator="NotIn", values=[instance_type])
    return k8s.Affinity(
        node_affinity=k8s.NodeAffinity(
            required_during_scheduling_ignored_during_execution=k8s.NodeSelector(
                node_selector_terms=[k8s.NodeSelectorTerm(match_expressions=[elsewhere])]
            )
        )
    )


def restricted() -> k8s.SecurityContext:
    """Container security context of the ``restricted`` pod security level, with a read-only root file
    system.
    """
    return k8s.SecurityContext(
        allow_privilege_escalation=False,
        capabilities=k8s.Capabilities(drop=["ALL"]),
        read_only_root_filesystem=True,
        run_as_group=1000,
        run_as_non_root=True,
        run_as_user=1000,
        seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
    )


def job_name(prefix: str, pod: k8s.PodSpec, *more: object) -> str:
    """Name of a Job that runs a pod: the pod cannot be changed, so another pod is another Job.

    Args:
        prefix: start of the name.
        pod: everything about the pod, with nothing in it that is known only once the stack exists.
        more: content that the pod refers to by a name that does not follow from it.
    """
    template = k8s.PodTemplateSpec(spec=pod)
    manifest = k8s.KubeJob.manifest(spec=k8s.JobSpec(template=template))
    return f"{prefix}-{short_hash([manifest, *more])}"


OWN_BUCKET = "the stack's own"
"""Stands for the bucket in what a name is made of: the stack's own has no name before it is deployed."""


TCP, UDP = "TCP", "UDP"


def ports(protocol: str, *numbers: int) -> list[k8s.NetworkPolicyPort]:
    """Ports of a rule of a network policy."""
    return [
        k8s.NetworkPolicyPort(port=k8s.IntOrString.from_number(number), protocol=protocol)
        for number in numbers
    ]


def metadata(name: str, labels: Mapping[str, str]) -> k8s.ObjectMeta:
    """Metadata of an object in the experiment's namespace."""
    return k8s.ObjectMeta(name=name, namespace=NAMESPACE, labels=dict(labels))


def digest(texts: Sequence[str]) -> str:
    """8 hex digits over texts: the suffix of a config map whose content a pod must see change."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]
