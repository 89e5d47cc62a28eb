"""Kubernetes objects of the experiment, applied in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Workloads(Construct):
    """Applies one manifest after another, and deletes them in the opposite order.

    Each chart is its own resource: the objects of a custom resource whose creation failed are never deleted, so small manifests leave less
    behind, and ``overwrite`` lets the next attempt go over it.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, cluster: eks.ICluster, manifests: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> None:
        super().__init__(scope, construct_id)
        previous: Construct | None = None
        for name, objects in manifests.items():
            manifest = eks.KubernetesManifest(self, name, cluster=cluster, manifest=list(objects), overwrite=True)
            if previous is not None:
                manifest.node.add_dependency(previous)
            previous = manifest
