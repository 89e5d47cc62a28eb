"""The network: two zones, one NAT gateway, and a private path to S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from trainium_constructs.acknowledgements import acknowledge

if TYPE_CHECKING:
    from collections.abc import Sequence

PRIVATE = ec2.SubnetType.PRIVATE_WITH_EGRESS


class Network(Construct):
    """A VPC for one cluster.

    The control plane needs two zones; the accelerator nodes need exactly one. The stack lists that one first,
    so that the only NAT gateway stands beside them and model downloads do not cross zones. Models and
    artifacts come over the S3 gateway endpoint, which costs nothing.

    Attributes:
        vpc: the VPC; nodes and the control plane's interfaces are in its private subnets.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, cidr: str, log_retention: logs.RetentionDays
    ) -> None:
        super().__init__(scope, construct_id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(cidr),
            max_azs=2,
            nat_gateways=1,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="public",
                    subnet_type=ec2.SubnetType.PUBLIC,
                    cidr_mask=26,
                    map_public_ip_on_launch=False,
                ),
                ec2.SubnetConfiguration(name="private", subnet_type=PRIVATE),
            ],
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)
            },
        )
        acknowledge(
            self.vpc,
            {
                "CloudFormation-Validate::W3010": (
                    "Accelerator capacity is in named zones, and a Capacity Block in exactly one"
                )
            },
        )
        flow_logs = logs.LogGroup(
            self, "FlowLogs", retention=log_retention, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        self.vpc.add_flow_log("FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(flow_logs))

    def private_subnets(self, *, zone: str | None = None) -> Sequence[str]:
        """Ids of the private subnets, all or those of one zone."""
        return self.vpc.select_subnets(
            subnet_type=PRIVATE, availability_zones=[zone] if zone else None
        ).subnet_ids
