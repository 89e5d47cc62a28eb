"""Kubernetes objects of the experiment, applied in order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

Object = dict[str, Any]

MANIFEST_BYTES = 220_000
"""Most that one manifest may take in the event CloudFormation sends.

The event goes to the CDK's function as an asynchronous invocation, which holds 256 KiB (AWS Lambda quotas);
the rest is for the event's other fields.
"""


@dataclass(frozen=True, slots=True)
class Server:
    """What is watched of one variant.

    Attributes:
        variant: its name in metrics.
        name: Kubernetes name of its Deployment.
        devices: Neuron devices it claims.
    """

    variant: str
    name: str
    devices: int


class Workloads(Construct):
    """Applies one manifest after another, and deletes them in the opposite order.

    Each chart is a resource of its own: objects of a custom resource whose creation failed are never deleted,
    so small manifests leave less behind, and ``overwrite`` lets the next attempt go over it. A chart too
    large for one event becomes several, in its order.

    Args:
        scope: parent construct.
        construct_id: construct id.
        cluster: the cluster.
        manifests: chart to its objects, in the order in which they are applied.
        namespace: Kubernetes namespace of the servers.
        servers: one for each variant, the baseline first.
        lasting: charts of which an object stays when another takes its place, until the stack goes.

    Attributes:
        namespace: Kubernetes namespace of the servers.
        servers: one for each variant, the baseline first.

    Raises:
        ValueError: one object alone is too large.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        manifests: Mapping[str, Sequence[Object]],
        namespace: str,
        servers: Sequence[Server],
        lasting: Collection[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        self.namespace, self.servers = namespace, tuple(servers)
        previous: Construct | None = None
        for name, objects in manifests.items():
            for number, part in enumerate(split(name, objects), 1):
                construct = eks.KubernetesManifest(
                    self,
                    name if number == 1 else f"{name}-{number}",
                    cluster=cluster,
                    manifest=part,
                    overwrite=True,
                    prune=name not in lasting,
                )
                if previous is not None:
                    construct.node.add_dependency(previous)
                previous = construct


def split(name: str, objects: Sequence[Object]) -> Iterator[list[Object]]:
    """Parts of a chart, each as full as the limit of one event allows.

    Raises:
        ValueError: one object alone is too large.
    """
    part: list[Object] = []
    used = 0
    for entry in objects:
        size = event_bytes(entry)
        if size > MANIFEST_BYTES:
            kind, of = entry.get("kind"), entry.get("metadata", {}).get("name")
            raise ValueError(
                f"{kind} {of} of chart {name} takes {size} bytes; one manifest may take {MANIFEST_BYTES}."
                " Split the object"
            )
        if part and used + size > MANIFEST_BYTES:
            yield part
            part, used = [], 0
        part.append(entry)
        used += size
    if part:
        yield part


def event_bytes(one: Object) -> int:
    """Size of an object in the event: as JSON in a JSON string."""
    return len(json.dumps(json.dumps(one)))
