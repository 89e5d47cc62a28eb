"""EKS add-ons, each declared once, in the order in which nodes and pods need them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aws_cdk import aws_eks as eks
from constructs import Construct

from specdec.catalog.addons import ADDONS
from trainium_constructs.roles import pod_role

if TYPE_CHECKING:
    from aws_cdk import aws_iam as iam

    from trainium_constructs.cluster import AnyCluster

_CNI, _CNI_ACCOUNT = "vpc-cni", "aws-node"


def addon(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    cluster: AnyCluster,
    role: iam.Role | None = None,
    service_account: str | None = None,
) -> eks.CfnAddon | None:
    """One add-on, with the settings that the catalogue has for it; None where the cluster has it already,
    which is then left alone.

    The higher-level construct of the CDK knows neither conflict resolution nor Pod Identity, so this is the
    plain resource.

    Args:
        scope: construct that owns the add-on.
        construct_id: construct id.
        name: name of the add-on.
        cluster: the cluster, which knows the add-on's version.
        role: role that the add-on's pods assume through Pod Identity.
        service_account: the Kubernetes service account of those pods.
    """
    if name in cluster.existing_addons:
        return None
    identity = None
    if role is not None and service_account is not None:
        identity = [
            eks.CfnAddon.PodIdentityAssociationProperty(
                role_arn=role.role_arn, service_account=service_account
            )
        ]
    values = ADDONS[name].values
    return eks.CfnAddon(
        scope,
        construct_id,
        addon_name=name,
        addon_version=cluster.addon_versions[name],
        cluster_name=cluster.cluster.cluster_name,
        configuration_values=json.dumps(values, sort_keys=True) if values else None,
        pod_identity_associations=identity,
        resolve_conflicts="OVERWRITE",
    )


class NodeAddons(Construct):
    """What a node needs to become ready: pod network, service network, and pod credentials. Nodes depend on
    this.
    """

    def __init__(self, scope: Construct, construct_id: str, *, cluster: AnyCluster) -> None:
        super().__init__(scope, construct_id)
        agent = addon(
            self,
            "PodIdentityAgent",
            name="eks-pod-identity-agent",
            cluster=cluster,
        )
        addon(self, "KubeProxy", name="kube-proxy", cluster=cluster)
        if _CNI not in cluster.existing_addons:
            self._cni(cluster, agent)
        # Tells EKS which node to repair.
        addon(self, "NodeMonitoring", name="eks-node-monitoring-agent", cluster=cluster)

    def _cni(self, cluster: AnyCluster, agent: eks.CfnAddon | None) -> None:
        role = pod_role(
            self,
            "VpcCniRole",
            cluster_name=cluster.cluster.cluster_name,
            namespace="kube-system",
            service_account=_CNI_ACCOUNT,
            managed_policies={
                "AmazonEKS_CNI_Policy": (
                    "AWS keeps it in step with what the CNI calls; only the aws-node pods have it"
                )
            },
        )
        cni = addon(
            self,
            "VpcCni",
            name=_CNI,
            cluster=cluster,
            role=role,
            service_account=_CNI_ACCOUNT,
        )
        if cni is not None and agent is not None:
            cni.node.add_dependency(agent)


class PodAddons(Construct):
    """What pods need besides nodes: names, and buckets as volumes. Needs the system nodes."""

    def __init__(self, scope: Construct, construct_id: str, *, cluster: AnyCluster) -> None:
        super().__init__(scope, construct_id)
        addon(self, "CoreDns", name="coredns", cluster=cluster)
        # The driver gets no role of its own: a volume is read with the credentials of the pod that mounts it.
        addon(
            self,
            "MountpointS3",
            name="aws-mountpoint-s3-csi-driver",
            cluster=cluster,
        )
