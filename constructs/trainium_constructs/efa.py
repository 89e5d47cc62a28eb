"""EFA interfaces of the accelerator nodes."""

from __future__ import annotations

from typing import cast

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class Efa(Construct):
    """One EFA interface per network card, and the security group and placement they need.

    The layout is that of the EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with
    multiple network cards": an ordinary primary interface, an EFA-only one beside it, and one EFA-only
    interface on each further card. EFA-only interfaces take no address of the subnet.

    Args:
        scope: parent construct.
        construct_id: construct id.
        vpc: where the nodes are.
        cluster_security_group_id: security group of the cluster, which EKS does not attach once a launch
            template names interfaces.
        cards: network cards of the instance type.
        placement_group: whether to make a cluster placement group. Reserved capacity brings its own
            placement.

    Attributes:
        interfaces: for the launch template.
        placement: for the launch template.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        cluster_security_group_id: str,
        cards: int,
        placement_group: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        group = ec2.SecurityGroup(
            self,
            "Peers",
            vpc=vpc,
            description="EFA traffic between accelerator nodes",
            allow_all_outbound=False,
        )
        # The stubs of SecurityGroup and IPeer name one parameter differently, nothing else.
        peers = cast("ec2.IPeer", group)
        # EFA needs a group that lets its own members through in both directions.
        group.add_ingress_rule(peers, ec2.Port.all_traffic(), "from other accelerator nodes")
        group.add_egress_rule(peers, ec2.Port.all_traffic(), "to other accelerator nodes")
        groups = [cluster_security_group_id, group.security_group_id]
        self.interfaces = [
            _interface(groups, card=0, device=0, kind="interface"),
            _interface(groups, card=0, device=1, kind="efa-only"),
            *(_interface(groups, card=card, device=0, kind="efa-only") for card in range(1, cards)),
        ]
        self.placement = None
        if placement_group:
            placement = ec2.CfnPlacementGroup(self, "Placement", strategy="cluster")
            self.placement = ec2.CfnLaunchTemplate.PlacementProperty(group_name=placement.ref)


def _interface(
    groups: list[str], *, card: int, device: int, kind: str
) -> ec2.CfnLaunchTemplate.NetworkInterfaceProperty:
    return ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
        network_card_index=card,
        device_index=device,
        interface_type=kind,
        groups=groups,
        delete_on_termination=True,
    )
