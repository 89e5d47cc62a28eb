"""A VPC that exists is used, and nothing of it is made, changed or tagged."""

import json

import pytest

from specdec.errors import BadInputError
from specdec.experiment.reading import parse
from tests.stack.synthesis import DEFAULT, REGION, Template, template

pytestmark = pytest.mark.slow

SUBNETS = 'subnets = { us-east-2a = "subnet-0a", us-east-2c = "subnet-0c", us-east-2b = "subnet-0b" }'
EXISTING = (('zone = "us-east-2b"', f'zone = "us-east-2b"\nvpc_id = "vpc-0a1b"\n{SUBNETS}'),)
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
    assert network["SubnetIds"] == ["subnet-0a", "subnet-0c"]
    groups = [group["Properties"] for group in existing.of_type("AWS::EKS::Nodegroup").values()]
    subnets = sorted(json.dumps(group["Subnets"]) for group in groups)
    assert subnets == ['["subnet-0a", "subnet-0c"]', '["subnet-0b"]']


def test_security_groups_are_in_the_vpc(existing: Template) -> None:
    groups = existing.of_type("AWS::EC2::SecurityGroup")
    assert groups
    assert {group["Properties"]["VpcId"] for group in groups.values()} == {"vpc-0a1b"}


def test_another_zone_is_another_node_group_alone(existing: Template) -> None:
    moved = template(('zone = "us-east-2b"', f'zone = "us-east-2c"\nvpc_id = "vpc-0a1b"\n{SUBNETS}'))
    differ = {
        existing.resources.get(name, moved.resources.get(name, {}))["Type"]
        for name in existing.resources.keys() | moved.resources.keys()
        if existing.resources.get(name) != moved.resources.get(name)
    }
    assert "AWS::EKS::Nodegroup" in differ
    assert "AWS::EKS::Cluster" not in differ


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('vpc_id = "vpc-0a"', "subnets"),
        (SUBNETS, "vpc_id"),
        ('vpc_id = "vpc-0a"\nsubnets = { us-east-2b = "subnet-0b" }', "two zones"),
        ('vpc_id = "vpc-0a"\nsubnets = { us-east-2a = "subnet-0a", us-east-2c = "subnet-0c" }', "no subnet"),
        ('vpc_id = "vpc-0a"\nsubnets = { us-east-2a = "subnet-0a", us-east-2b = "subnet-0a" }', "twice"),
        ('vpc_id = "vpc-0a"\nsubnets = { eu-west-1a = "subnet-0a", us-east-2b = "subnet-0b" }', "eu-west-1a"),
        ('vpc_id = "vpc-0a"\nsubnets = { us-east-2a = "net-0a", us-east-2b = "subnet-0b" }', "net-0a"),
        (f'vpc_id = "vpc-0a"\n{SUBNETS}\nzones = ["us-east-2a", "us-east-2b"]', "no effect"),
        (f'vpc_id = "my-vpc"\n{SUBNETS}', "vpc_id"),
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
