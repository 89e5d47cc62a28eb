"""A VPC that exists is looked at before pods fail to start in it."""

from typing import Any

import pytest

from specdec.preflight import network
from tests.operate.conftest import StubbedAws, experiment_with, scope_of

VPC = "vpc-0a1b2c3d"
ZONES = {"us-east-2b": "subnet-0b", "us-east-2a": "subnet-0a"}
EXISTING = experiment_with(
    (
        'zone = "us-east-2b"',
        f'zone = "us-east-2b"\nvpc_id = "{VPC}"\n'
        f'subnets = {{ us-east-2b = "subnet-0b", us-east-2a = "subnet-0a" }}',
    )
)
NAT = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-0a", "State": "active"}
S3 = {"DestinationPrefixListId": "pl-0a", "GatewayId": "vpce-0a", "State": "active"}
PUBLIC = {"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-0a", "State": "active"}
LOCAL = {"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local", "State": "active"}


def subnet(zone: str, **other: Any) -> dict[str, Any]:
    return {
        "SubnetId": ZONES[zone],
        "VpcId": VPC,
        "AvailabilityZone": zone,
        "AvailableIpAddressCount": 4000,
        **other,
    }


def answers(
    aws: StubbedAws, subnets: list[dict[str, Any]], routes: list[dict[str, Any]], *, dns: bool
) -> None:
    aws.answers("ec2", "describe_subnets", {"Subnets": subnets})
    table = {"Routes": [LOCAL, *routes], "Associations": [{"Main": True}]}
    aws.answers("ec2", "describe_route_tables", {"RouteTables": [table]})
    aws.answers("ec2", "describe_vpc_attribute", {"EnableDnsSupport": {"Value": True}})
    aws.answers("ec2", "describe_vpc_attribute", {"EnableDnsHostnames": {"Value": dns}})


@pytest.mark.parametrize(
    ("subnets", "routes", "dns", "level", "said"),
    [
        ([subnet("us-east-2b"), subnet("us-east-2a")], [NAT, S3], True, "ok", VPC),
        ([subnet("us-east-2b")], [NAT], True, "warning", "70 GB"),
        ([subnet("us-east-2b")], [], True, "blocker", "no route to S3"),
        ([subnet("us-east-2b")], [S3], True, "blocker", "no default route"),
        ([subnet("us-east-2b")], [PUBLIC, S3], True, "blocker", "no default route"),
        ([subnet("us-east-2b")], [{**NAT, "State": "blackhole"}], True, "blocker", "no route to S3"),
        ([subnet("us-east-2b", VpcId="vpc-9")], [NAT, S3], True, "blocker", "vpc-9"),
        ([subnet("us-east-2b", AvailabilityZone="us-east-2c")], [NAT, S3], True, "blocker", "us-east-2c"),
        ([subnet("us-east-2b", AvailableIpAddressCount=11)], [NAT, S3], True, "blocker", "11 free"),
        ([subnet("us-east-2b")], [NAT, S3], False, "blocker", "enableDnsHostnames"),
    ],
)
def test_what_a_vpc_lacks_is_named(
    aws: StubbedAws,
    subnets: list[dict[str, Any]],
    routes: list[dict[str, Any]],
    dns: bool,
    level: str,
    said: str,
) -> None:
    answers(aws, subnets, routes, dns=dns)
    findings = list(network.network(scope_of(aws, EXISTING)))
    assert [finding.level for finding in findings] == [level]
    assert said in findings[0].what
    assert level == "ok" or findings[0].remedy


def test_a_table_of_its_own_counts_before_the_main_one() -> None:
    own = {"Routes": [NAT, S3], "Associations": [{"SubnetId": "subnet-0b"}]}
    main = {"Routes": [LOCAL], "Associations": [{"Main": True}]}
    assert list(network.judge_routes([subnet("us-east-2b")], [main, own])) == []
    (finding,) = network.judge_routes([subnet("us-east-2a")], [main, own])
    assert "subnet-0a" in finding.what


def test_a_subnet_that_is_not_there(aws: StubbedAws) -> None:
    aws.fails("ec2", "describe_subnets", "InvalidSubnetID.NotFound", "subnet-0b does not exist")
    (finding,) = network.network(scope_of(aws, EXISTING))
    assert (finding.level, "subnet-0b" in finding.what) == ("blocker", True)


def test_without_a_vpc_nothing_is_asked(aws: StubbedAws) -> None:
    assert list(network.network(scope_of(aws))) == []
