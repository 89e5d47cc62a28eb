"""The accelerator nodes: one managed node group in one zone, bought in one of four ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks
from constructs import Construct

from trainium_constructs.node_groups import ROLE_LABEL, metadata_options, root_volume, tag_instances

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_cdk import aws_iam as iam

    from specdec.catalog.chips import Instance, Purchase
    from trainium_constructs.cluster import AnyCluster
    from trainium_constructs.efa import Efa

_CAPACITY_TYPES: Mapping[Purchase, str] = {
    "on-demand": "ON_DEMAND",
    "reservation": "ON_DEMAND",
    "spot": "SPOT",
    "capacity-block": "CAPACITY_BLOCK",
}

TAINT = "aws.amazon.com/neuron"
"""Key of the taint that keeps all pods off the accelerator nodes but those that tolerate it."""

_NODE_CONFIG = """\
---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
"""


def node_group_name(*, zone: str, purchase: Purchase, reservation_id: str | None = None) -> str:
    """Name of the group, known before deployment.

    A change of zone or purchase makes CloudFormation replace the group. Both are in the name, so that the
    successor cannot collide with the group it replaces. Another reservation with another size is handled the
    same way, because CloudFormation refuses both as one update of one group (aws/containers-roadmap#1258).
    """
    reserved = reservation_id.removeprefix("cr-") if reservation_id else None
    return "-".join(part for part in ("accelerator", zone, purchase, reserved) if part)


class TrainiumNodes(Construct):
    """A node group of Trainium instances.

    The instance type is in the launch template alone: EKS refuses it in both places, a Capacity Block allows
    only this one, and the check in the CDK's own node group does not know the type.

    Attributes:
        name: name of the node group.
        devices: Neuron devices of one node.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: AnyCluster,
        role: iam.Role,
        subnet_id: str,
        zone: str,
        instance: Instance,
        purchase: Purchase,
        reservation_id: str | None,
        desired_nodes: int,
        max_nodes: int,
        root_volume_gib: int,
        efa: Efa | None = None,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        self.devices = instance.devices
        self.name = node_group_name(zone=zone, purchase=purchase, reservation_id=reservation_id)
        # The array takes images, container layers, logs and emptyDir volumes off the root volume and onto
        # NVMe.
        user_data = ec2.MultipartUserData()
        user_data.add_part(
            ec2.MultipartBody.from_raw_body(content_type="application/node.eks.aws", body=_NODE_CONFIG)
        )
        if instance.hugepages_mib:
            # Before the kubelet starts, which reports what it finds then. The pods in a node's share of each
            # device ask for as much.
            pages = instance.devices * instance.hugepages_mib // 2
            script = f"#!/bin/bash\nset -e\necho {pages} > /proc/sys/vm/nr_hugepages\n"
            user_data.add_part(
                ec2.MultipartBody.from_raw_body(content_type="text/x-shellscript", body=script)
            )
        template = ec2.CfnLaunchTemplate(
            self,
            "LaunchTemplate",
            launch_template_data=ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
                instance_type=instance.type,
                metadata_options=metadata_options(),
                block_device_mappings=[root_volume(root_volume_gib)],
                user_data=cdk.Fn.base64(user_data.render()),
                tag_specifications=tag_instances(f"{cluster.cluster.cluster_name}-accelerator", tags),
                network_interfaces=efa.interfaces if efa else None,
                placement=efa.placement if efa else None,
                instance_market_options=(
                    ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty(market_type="capacity-block")
                    if purchase == "capacity-block"
                    else None
                ),
                capacity_reservation_specification=(
                    ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty(
                        capacity_reservation_target=ec2.CfnLaunchTemplate.CapacityReservationTargetProperty(
                            capacity_reservation_id=reservation_id
                        )
                    )
                    if purchase in ("reservation", "capacity-block")
                    else None
                ),
            ),
        )
        eks.CfnNodegroup(
            self,
            "Group",
            cluster_name=cluster.cluster.cluster_name,
            nodegroup_name=self.name,
            node_role=role.role_arn,
            subnets=[subnet_id],
            ami_type="AL2023_x86_64_NEURON",
            capacity_type=_CAPACITY_TYPES[purchase],
            labels={ROLE_LABEL: "accelerator"},
            taints=[eks.CfnNodegroup.TaintProperty(key=TAINT, value="true", effect="NO_SCHEDULE")],
            release_version=cluster.ami_release,
            version=cluster.kubernetes_version if cluster.ami_release else None,
            launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
                id=template.ref, version=template.attr_latest_version_number
            ),
            scaling_config=eks.CfnNodegroup.ScalingConfigProperty(
                min_size=0, desired_size=desired_nodes, max_size=max_nodes
            ),
            # The default strategy starts the new node before it drains the old one, and there is no second
            # trn2 to start.
            update_config=eks.CfnNodegroup.UpdateConfigProperty(max_unavailable=1, update_strategy="MINIMAL"),
            node_repair_config=eks.CfnNodegroup.NodeRepairConfigProperty(enabled=True),
        )
