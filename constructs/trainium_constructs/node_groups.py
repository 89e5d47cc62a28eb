"""What the system and the accelerator node groups have in common, and the system group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks
from constructs import Construct

from specdec.catalog import system_node
from trainium_constructs.roles import service_role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_cdk import aws_iam as iam

    from trainium_constructs.cluster import AnyCluster

ROLE_LABEL = "specdec/nodes"
"""Node label; its value is ``system`` or ``accelerator``."""

_NODE_POLICIES = {
    "AmazonEKSWorkerNodePolicy": "Joining a cluster needs what EKS says it needs",
    "AmazonEC2ContainerRegistryPullOnly": "Pulls the images of EKS add-ons, and pushes none",
    "AmazonSSMManagedInstanceCore": "Session Manager instead of SSH keys and open ports",
}


def node_role(scope: Construct, construct_id: str) -> iam.Role:
    """Role of the nodes themselves. What pods may do is never here, but in their own Pod Identity roles.

    Session Manager is the way onto a node and, by port forwarding, to the private API endpoint: no SSH, no
    open port.
    """
    return service_role(scope, construct_id, service="ec2.amazonaws.com", managed_policies=_NODE_POLICIES)


def metadata_options() -> ec2.CfnLaunchTemplate.MetadataOptionsProperty:
    """IMDSv2 only, and one hop: no pod reaches the node's credentials. The CloudWatch agent asks from the
    host's network (aws-observability/helm-charts#82).
    """
    return ec2.CfnLaunchTemplate.MetadataOptionsProperty(
        http_tokens="required", http_put_response_hop_limit=1
    )


def root_volume(gib: int) -> ec2.CfnLaunchTemplate.BlockDeviceMappingProperty:
    """An encrypted gp3 root volume of ``gib`` GiB. ``/dev/xvda`` is the root device of the AL2023 images."""
    return ec2.CfnLaunchTemplate.BlockDeviceMappingProperty(
        device_name="/dev/xvda",
        ebs=ec2.CfnLaunchTemplate.EbsProperty(
            volume_size=gib, volume_type="gp3", encrypted=True, delete_on_termination=True
        ),
    )


def tag_instances(name: str, tags: Mapping[str, str]) -> list[ec2.CfnLaunchTemplate.TagSpecificationProperty]:
    """Tags for instances and volumes: a node group does not hand its own tags down, and cost reports would
    miss them.
    """
    listed = [{"key": key, "value": value} for key, value in {"Name": name, **tags}.items()]
    return [
        ec2.CfnLaunchTemplate.TagSpecificationProperty(resource_type=kind, tags=listed)
        for kind in ("instance", "volume")
    ]


class SystemNodes(Construct):
    """Small nodes for DNS, add-on controllers and the benchmark, so that none of them runs on the
    accelerator node.

    Attributes:
        count: how many there are.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: AnyCluster,
        role: iam.Role,
        subnet_ids: Sequence[str],
        instance_type: str,
        count: int,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        self.count = count
        template = ec2.CfnLaunchTemplate(
            self,
            "LaunchTemplate",
            launch_template_data=ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
                instance_type=instance_type,
                metadata_options=metadata_options(),
                block_device_mappings=[root_volume(system_node.VOLUME_GIB)],
                tag_specifications=tag_instances(f"{cluster.cluster.cluster_name}-system", tags),
            ),
        )
        eks.CfnNodegroup(
            self,
            "Group",
            cluster_name=cluster.cluster.cluster_name,
            node_role=role.role_arn,
            subnets=list(subnet_ids),
            ami_type="AL2023_x86_64_STANDARD",
            capacity_type="ON_DEMAND",
            labels={ROLE_LABEL: "system"},
            release_version=cluster.ami_release,
            version=cluster.kubernetes_version if cluster.ami_release else None,
            launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
                id=template.ref, version=template.attr_latest_version_number
            ),
            scaling_config=eks.CfnNodegroup.ScalingConfigProperty(
                min_size=self.count, desired_size=self.count, max_size=self.count + 1
            ),
            update_config=eks.CfnNodegroup.UpdateConfigProperty(max_unavailable=1),
            node_repair_config=eks.CfnNodegroup.NodeRepairConfigProperty(enabled=True),
        )
