"""Whether a VPC that exists can carry the stack: its subnets, addresses, names and routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import calls, code, pages
from specdec.experiment.endpoints import endpoints_of
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from specdec.experiment.fields import Placement

ADDRESSES = 120
"""Free addresses a subnet needs: 100 pods of an accelerator node (its limit with the VPC CNI's defaults) or
those of the system nodes, and the control plane's interfaces. EKS itself asks for 6 and advises 16 (EKS user
guide, "View Amazon EKS networking requirements for VPC and subnets")."""

_FLAGS = {"enableDnsSupport": "enable-dns-support", "enableDnsHostnames": "enable-dns-hostnames"}
"""Attributes of the VPC that EKS needs, with the option that sets each."""

_OUTWARD = ("NatGatewayId", "TransitGatewayId", "GatewayId", "NetworkInterfaceId", "VpcPeeringConnectionId")


def network(scope: Scope) -> Iterator[Finding]:
    """An existing VPC is used as it is, so anything it lacks only shows when pods do not start. Nothing is
    asked if the stack makes its own VPC.
    """
    place = scope.experiment.placement[scope.region]
    if place.vpc_id is None:
        return
    ec2, vpc = scope.clients("ec2"), [{"Name": "vpc-id", "Values": [place.vpc_id]}]
    with calls():
        try:
            subnets = pages(ec2, "describe_subnets", "Subnets", SubnetIds=list(place.subnets.values()))
        except ClientError as error:
            if code(error) != "InvalidSubnetID.NotFound":
                raise
            yield Finding("network", "blocker", f"a subnet does not exist: {error}", _SUBNETS)
            return
        tables = pages(ec2, "describe_route_tables", "RouteTables", Filters=vpc)
        names = [
            attribute
            for attribute in _FLAGS
            if not ec2.describe_vpc_attribute(VpcId=place.vpc_id, Attribute=attribute)[
                f"{attribute[0].upper()}{attribute[1:]}"
            ]["Value"]
        ]
    isolated = not scope.experiment.network.internet
    findings = [*judge_subnets(place, subnets), *judge_routes(subnets, tables, isolated=isolated)]
    if isolated:
        with calls():
            endpoints = pages(ec2, "describe_vpc_endpoints", "VpcEndpoints", Filters=vpc)
        findings += judge_endpoints(endpoints, endpoints_of(scope.experiment), region=scope.region)
    if names:
        findings.append(
            Finding(
                "network",
                "blocker",
                f"{' and '.join(names)} is off in {place.vpc_id}: nodes cannot find the cluster's endpoint",
                f"aws ec2 modify-vpc-attribute --vpc-id {place.vpc_id} --{_FLAGS[names[0]]}",
            )
        )
    zones = ", ".join(place.subnets)
    yield from findings or [
        Finding("network", "ok", f"{place.vpc_id} has subnets with routes out in {zones}")
    ]


def judge_subnets(place: Placement, subnets: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """Reads each subnet's VPC, zone and free addresses."""
    zones = {subnet: zone for zone, subnet in place.subnets.items()}
    for subnet in subnets:
        name = subnet["SubnetId"]
        if subnet["VpcId"] != place.vpc_id:
            yield Finding(
                "network", "blocker", f"{name} is in {subnet['VpcId']}, not in {place.vpc_id}", _SUBNETS
            )
        elif subnet["AvailabilityZone"] != zones[name]:
            yield Finding(
                "network",
                "blocker",
                f"{name} is in {subnet['AvailabilityZone']}, not in {zones[name]}",
                _SUBNETS,
            )
        elif subnet["AvailableIpAddressCount"] < ADDRESSES:
            yield Finding(
                "network",
                "blocker",
                f"{name} has {subnet['AvailableIpAddressCount']} free addresses, and each pod takes one:"
                f" {ADDRESSES} are needed",
                "Use a larger subnet, or add a secondary range to the VPC",
            )


def judge_routes(
    subnets: Iterable[Mapping[str, Any]], tables: Iterable[Mapping[str, Any]], *, isolated: bool = False
) -> Iterator[Finding]:
    """Reads the route table of each subnet; one without its own has the VPC's main table.

    Models and images come over S3 and registries: a gateway endpoint of S3 is a route to a prefix list, and
    everything else needs a default route, to a NAT gateway, a transit gateway or an appliance; or, in an
    isolated network, endpoints.
    """
    listed = list(tables)
    for subnet in subnets:
        name = subnet["SubnetId"]
        table = next(
            (t for t in listed if any(a.get("SubnetId") == name for a in t.get("Associations", []))), None
        ) or next((t for t in listed if any(a.get("Main") for a in t.get("Associations", []))), None)
        routes = [route for route in (table or {}).get("Routes", []) if route.get("State") != "blackhole"]
        default = any(
            route.get("DestinationCidrBlock") == "0.0.0.0/0"
            and any(route.get(kind) for kind in _OUTWARD)
            # Nodes have no public address, and an internet gateway serves only those that have one.
            and not str(route.get("GatewayId", "")).startswith("igw-")
            for route in routes
        )
        endpoint = any(
            route.get("DestinationPrefixListId") and str(route.get("GatewayId", "")).startswith("vpce-")
            for route in routes
        )
        if not default and not endpoint:
            yield Finding(
                "network", "blocker", f"{name} has no route to S3, where models come from", _S3_ROUTE
            )
        elif not default and not isolated:
            yield Finding(
                "network",
                "blocker",
                f"{name} has no default route: pods reach neither image registries nor AWS's own services",
                "Add a route to a NAT gateway or transit gateway",
            )
        elif not endpoint:
            yield Finding(
                "network",
                "warning",
                f"{name} reaches S3 by its default route: a NAT gateway charges for the 70 GB of a model",
                _S3_ROUTE,
            )


def judge_endpoints(
    endpoints: Iterable[Mapping[str, Any]], needed: Iterable[str], *, region: str
) -> Iterator[Finding]:
    """Compares the VPC's interface endpoints with those that stand for a way out."""
    there = {
        endpoint["ServiceName"].removeprefix(f"com.amazonaws.{region}.")
        for endpoint in endpoints
        if endpoint.get("State", "").lower() == "available" and endpoint.get("PrivateDnsEnabled")
    }
    missing = [name for name in needed if name not in there]
    if missing:
        yield Finding(
            "network",
            "blocker",
            "network.internet is false, and the VPC has no endpoint with private DNS for"
            f" {', '.join(missing)}",
            "Let its owners add them: aws ec2 create-vpc-endpoint --vpc-endpoint-type Interface"
            f" --private-dns-enabled --service-name com.amazonaws.{region}.{missing[0]}",
        )


_SUBNETS = "Correct subnets in the placement of this region"
_S3_ROUTE = "Add a gateway endpoint for S3 to the subnet's route table; it costs nothing"
