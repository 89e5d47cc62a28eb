"""A VPC that exists is used, and nothing of it is made, changed or tagged."""

import json

import pytest

from specdec.errors import BadInputError
from specdec.experiment.reading import parse
from tests.stack.synthesis import DEFAULT, REGION, Template, template

pytestmark = pytest.mark.slow

A, B, C = (f'us-east-2{zone} = "subnet-0000000{zone}"' for zone in "abc")
SUBNETS = f"subnets = {{ {A}, {C}, {B} }}"
EXISTING = (('zone = "us-east-2b"', f'zone = "us-east-2b"\nvpc_id = "vpc-0000a1b0"\n{SUBNETS}'),)
NETWORK = (
    "VPC",
    "Subnet",
    "RouteTable",
    "Route",
    "NatGateway",
    "InternetGateway",
    "EIP",
    "VPCEndpoint",
    "FlowLog",
)


@pytest.fixture(scope="module")
def existing() -> Template:
    return template(*EXISTING)


def test_no_part_of_a_network_is_made(existing: Template) -> None:
    made = {resource["Type"] for resource in existing.resources.values()}
    assert made & {f"AWS::EC2::{kind}" for kind in NETWORK} == set()
    assert len(existing.resources) < len(template().resources)


def test_control_plane_and_system_nodes_are_in_the_first_two_subnets(existing: Template) -> None:
    network = existing.only("AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert network["SubnetIds"] == ["subnet-0000000a", "subnet-0000000c"]
    groups = [group["Properties"] for group in existing.of_type("AWS::EKS::Nodegroup").values()]
    subnets = sorted(json.dumps(group["Subnets"]) for group in groups)
    assert subnets == ['["subnet-0000000a", "subnet-0000000c"]', '["subnet-0000000b"]']


def test_security_groups_are_in_the_vpc(existing: Template) -> None:
    groups = existing.of_type("AWS::EC2::SecurityGroup")
    assert groups
    assert {group["Properties"]["VpcId"] for group in groups.values()} == {"vpc-0000a1b0"}


def test_another_zone_is_another_node_group_alone(existing: Template) -> None:
    moved = template(('zone = "us-east-2b"', f'zone = "us-east-2c"\nvpc_id = "vpc-0000a1b0"\n{SUBNETS}'))
    differ = {
        existing.resources.get(name, moved.resources.get(name, {}))["Type"]
        for name in existing.resources.keys() | moved.resources.keys()
        if existing.resources.get(name) != moved.resources.get(name)
    }
    assert "AWS::EKS::Nodegroup" in differ
    assert "AWS::EKS::Cluster" not in differ


VPC = 'vpc_id = "vpc-0000000a"'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (VPC, "subnets"),
        (SUBNETS, "vpc_id"),
        (f"{VPC}\nsubnets = {{ {B} }}", "two zones"),
        (f"{VPC}\nsubnets = {{ {A}, {C} }}", "no subnet"),
        (f'{VPC}\nsubnets = {{ {A}, us-east-2b = "subnet-0000000a" }}', "twice"),
        (f'{VPC}\nsubnets = {{ eu-west-1a = "subnet-0000000a", {B} }}', "eu-west-1a"),
        (f'{VPC}\nsubnets = {{ us-east-2a = "net-0a", {B} }}', "net-0a"),
        (f'{VPC}\nsubnets = {{ us-east-2a = "subnet-0a", {B} }}', "17 hexadecimal digits"),
        (f'{VPC}\n{SUBNETS}\nzones = ["us-east-2a", "us-east-2b"]', "no effect"),
        (f'vpc_id = "my-vpc"\n{SUBNETS}', "vpc_id"),
        (f'vpc_id = "vpc-0a1b2c"\n{SUBNETS}', "vpc_id"),
        ('reservation_id = "cr-0a"', "reservation_id"),
    ],
)
def test_a_wrong_network_is_named(lines: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        parse(DEFAULT.replace('zone = "us-east-2b"', f'zone = "us-east-2b"\n{lines}'))


def test_zones_follow_from_the_subnets() -> None:
    text = DEFAULT
    for old, new in EXISTING:
        text = text.replace(old, new)
    assert parse(text).zones(REGION) == ("us-east-2a", "us-east-2c", "us-east-2b")
