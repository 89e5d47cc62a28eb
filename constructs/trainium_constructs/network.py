"""The network: a control plane in two zones, nodes in any, one NAT gateway, and a private path to S3."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, TypeAlias, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from trainium_constructs.acknowledgements import acknowledge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_cdk import aws_s3 as s3

PRIVATE = ec2.SubnetType.PRIVATE_WITH_EGRESS

_UNTAGGED = {
    "Annotation::@aws-cdk/aws-eks:clusterMustManuallyTagSubnet": (
        "The tag is for load balancers, and there is none"
    )
}

_PART_BITS = 3
"""The range is cut into eighths: public, two private, and up to five of nodes."""


class OwnNetwork(Construct):
    """What every VPC that we make has: subnets of nodes, a private path to S3, flow logs.

    Attributes:
        vpc: the VPC; its private subnets hold the control plane's interfaces and the system nodes.
    """

    vpc: ec2.IVpc
    _nodes: dict[str, ec2.PrivateSubnet]
    _s3: ec2.GatewayVpcEndpoint

    def reach_only(self, bucket: s3.IBucket) -> None:
        """Narrows the path to S3 to one bucket of ours and what AWS itself keeps there."""
        _reach_only(self._s3, bucket)

    def private_subnets(self) -> Sequence[str]:
        """Ids of the private subnets of the control plane's two zones."""
        return [subnet.subnet_id for subnet in self.vpc.private_subnets]

    def node_subnet(self, zone: str) -> str:
        """Id of the accelerator nodes' subnet in one zone."""
        return self._nodes[zone].subnet_id

    def _add_nodes(self, vpc: ec2.Vpc, zones: Sequence[str], parts: Sequence[ipaddress.IPv4Network]) -> None:
        """Gives every zone a subnet of nodes."""
        self._nodes = {}
        for zone, part in zip(zones, parts, strict=False):
            subnet = self._nodes[zone] = ec2.PrivateSubnet(
                self,
                # By the letter: a name must not follow from the place in the list.
                f"Nodes{zone[-1].upper()}",
                vpc_id=vpc.vpc_id,
                availability_zone=zone,
                cidr_block=str(part),
            )
            acknowledge(subnet, {"CloudFormation-Validate::W3010": "Accelerator capacity is in named zones"})

    def _add_path_to_s3(self, vpc: ec2.Vpc, subnets: Sequence[ec2.ISubnet]) -> None:
        """From these subnets and those of the nodes."""
        self._s3 = vpc.add_gateway_endpoint(
            "S3",
            service=ec2.GatewayVpcEndpointAwsService.S3,
            subnets=[ec2.SubnetSelection(subnets=[*subnets, *map(_as_subnet, self._nodes.values())])],
        )

    def _add_flow_logs(self, vpc: ec2.Vpc, retention: logs.RetentionDays) -> None:
        group = logs.LogGroup(self, "FlowLogs", retention=retention, removal_policy=cdk.RemovalPolicy.DESTROY)
        vpc.add_flow_log("FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group))


class Network(OwnNetwork):
    """A VPC for one cluster.

    Zones have a fixed order, and every subnet keeps zone and range for as long as the stack lives: EKS cannot
    move a control plane, and CloudFormation cannot swap the ranges of two subnets. Accelerator nodes have a
    subnet in every zone, so that another zone is another node group and nothing else. Models and artifacts
    come over the S3 gateway endpoint, which costs nothing.

    Args:
        scope: parent construct.
        construct_id: construct id.
        cidr: range of the VPC, /16 to /22.
        zones: two to five; a later stack may append, and changes none.
        log_retention: of the flow logs.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cidr: str,
        zones: Sequence[str],
        log_retention: logs.RetentionDays,
    ) -> None:
        super().__init__(scope, construct_id)
        network = ipaddress.IPv4Network(cidr)
        _, first, second, *parts = network.subnets(prefixlen_diff=_PART_BITS)
        gateways = ec2.NatProvider.gateway()
        self.vpc = made = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(cidr),
            availability_zones=list(zones[:2]),
            nat_gateways=1,
            nat_gateway_provider=gateways,
            # Nothing of ours is in the default group, and what somebody starts here without naming another
            # would be. CloudFormation cannot take its rules away, so a function of the CDK does.
            restrict_default_security_group=True,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="public",
                    subnet_type=ec2.SubnetType.PUBLIC,
                    cidr_mask=26,
                    map_public_ip_on_launch=False,
                ),
                ec2.SubnetConfiguration(name="private", subnet_type=PRIVATE, cidr_mask=first.prefixlen),
            ],
        )
        assert made.private_subnets[1].ipv4_cidr_block == str(second), "the CDK fills ranges in order"
        acknowledge(
            made,
            {
                "CloudFormation-Validate::W3010": (
                    "Accelerator capacity is in named zones, and a Capacity Block in exactly one"
                )
            },
        )
        (gateway,) = gateways.configured_gateways
        self._add_nodes(made, zones, parts)
        for subnet in self._nodes.values():
            subnet.add_default_nat_route(gateway.gateway_id)
        self._add_path_to_s3(made, made.private_subnets)
        self._add_flow_logs(made, log_retention)


class ExistingNetwork(Construct):
    """A VPC that somebody else made, behind the same attributes. Nothing of it is changed or tagged.

    It must have a way to S3 and to what pods fetch; `specdec check` looks at its routes.

    Args:
        scope: parent construct.
        construct_id: construct id.
        vpc_id: the VPC.
        subnets: private subnet by zone; the control plane and the system nodes are in the first two.

    Attributes:
        vpc: the VPC with the first two subnets as its private ones.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, vpc_id: str, subnets: Mapping[str, str]
    ) -> None:
        super().__init__(scope, construct_id)
        zones = list(subnets)[:2]
        self.vpc: ec2.IVpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=vpc_id,
            availability_zones=zones,
            private_subnet_ids=[subnets[zone] for zone in zones],
        )
        self._nodes = dict(subnets)
        acknowledge(
            self,
            {"Annotation::@aws-cdk/aws-ec2:noSubnetRouteTableId": "Nothing here reads or changes its routes"},
        )
        acknowledge(cdk.Stack.of(self), _UNTAGGED)

    def private_subnets(self) -> Sequence[str]:
        """Ids of the private subnets of the control plane's two zones."""
        return list(self._nodes.values())[:2]

    def node_subnet(self, zone: str) -> str:
        """Id of the accelerator nodes' subnet in one zone."""
        return self._nodes[zone]


class IsolatedNetwork(OwnNetwork):
    """A VPC without a way to the internet, behind the same attributes: endpoints of AWS's services stand for
    the NAT gateway, and every subnet's only other route is to S3.

    Args:
        scope, construct_id, cidr, zones, log_retention: as of ``Network``.
        endpoints: short names of the services that nodes, pods and the kubectl function call.

    Attributes:
        vpc: the VPC with the first two subnets as its private ones.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cidr: str,
        zones: Sequence[str],
        log_retention: logs.RetentionDays,
        endpoints: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        first, _, _, *parts = ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=_PART_BITS)
        made = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(cidr),
            availability_zones=list(zones[:2]),
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="private",
                    subnet_type=ec2.SubnetType.PRIVATE_ISOLATED,
                    cidr_mask=first.prefixlen,
                )
            ],
        )
        acknowledge(made, {"CloudFormation-Validate::W3010": "Accelerator capacity is in named zones"})
        self._add_nodes(made, zones, parts)
        self._add_path_to_s3(made, made.isolated_subnets)
        inside = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=made,
            description="AWS endpoints, from inside the VPC",
            allow_all_outbound=False,
        )
        inside.add_ingress_rule(ec2.Peer.ipv4(cidr), ec2.Port.tcp(443), "Nodes, pods and functions")
        for service in endpoints:
            made.add_interface_endpoint(
                "".join(part.title() for part in service.replace(".", "-").split("-")),
                service=ec2.InterfaceVpcEndpointAwsService(service),
                subnets=ec2.SubnetSelection(subnets=made.isolated_subnets),
                security_groups=[cast("ec2.ISecurityGroup", inside)],
                open=False,
            )
        self._add_flow_logs(made, log_retention)
        acknowledge(cdk.Stack.of(self), _UNTAGGED)
        # The CDK calls subnets private only if they have a way out.
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Inside",
            vpc_id=made.vpc_id,
            availability_zones=list(zones[:2]),
            private_subnet_ids=[subnet.subnet_id for subnet in made.isolated_subnets],
            private_subnet_route_table_ids=[
                subnet.route_table.route_table_id for subnet in made.isolated_subnets
            ],
        )


AnyNetwork: TypeAlias = Network | IsolatedNetwork | ExistingNetwork


def _reach_only(endpoint: ec2.GatewayVpcEndpoint, bucket: s3.IBucket) -> None:
    """Narrows the path to S3 to one bucket of ours and what AWS itself keeps there for nodes and stacks.

    Sources: EKS user guide, "Private clusters" (image layers); CloudFormation user guide, "VPC endpoint
    policies for custom resources"; Systems Manager user guide, "SSM Agent communications with S3".
    """
    everyone: list[iam.IPrincipal] = [cast("iam.IPrincipal", iam.AnyPrincipal())]
    endpoint.add_to_policy(
        iam.PolicyStatement(
            sid="OwnBucket",
            principals=everyone,
            actions=["s3:*"],
            resources=[bucket.bucket_arn, bucket.arn_for_objects("*")],
        )
    )
    region = cdk.Aws.REGION
    endpoint.add_to_policy(
        iam.PolicyStatement(
            sid="ReadWhatAwsKeeps",
            principals=everyone,
            actions=["s3:GetObject"],
            resources=[
                f"arn:{cdk.Aws.PARTITION}:s3:::{name}/*"
                for name in (
                    f"prod-{region}-starport-layer-bucket",
                    f"al2023-repos-{region}-de612dc2",
                    f"amazon-ssm-{region}",
                    f"aws-ssm-{region}",
                )
            ],
        )
    )
    endpoint.add_to_policy(
        iam.PolicyStatement(
            sid="AnswerCloudFormation",
            principals=everyone,
            actions=["s3:PutObject"],
            resources=[f"arn:{cdk.Aws.PARTITION}:s3:::cloudformation-custom-resource-response-*/*"],
        )
    )


def _as_subnet(subnet: ec2.PrivateSubnet) -> ec2.ISubnet:
    # The stubs of PrivateSubnet lack a property of ISubnet that the class has.
    return cast("ec2.ISubnet", subnet)
