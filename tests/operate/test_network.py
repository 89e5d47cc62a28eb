"""A VPC that exists is looked at before pods fail to start in it."""

from typing import Any

import pytest

from specdec.experiment.endpoints import ENDPOINTS
from specdec.preflight import mirror, network
from tests.operate.conftest import StubbedAws, experiment_with, scope_of

VPC = "vpc-0a1b2c3d"
ZONES = {"us-east-2b": "subnet-0000000b", "us-east-2a": "subnet-0000000a"}
EXISTING = experiment_with(
    (
        'zone = "us-east-2b"',
        f'zone = "us-east-2b"\nvpc_id = "{VPC}"\n'
        f'subnets = {{ us-east-2b = "subnet-0000000b", us-east-2a = "subnet-0000000a" }}',
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
    own = {"Routes": [NAT, S3], "Associations": [{"SubnetId": "subnet-0000000b"}]}
    main = {"Routes": [LOCAL], "Associations": [{"Main": True}]}
    assert list(network.judge_routes([subnet("us-east-2b")], [main, own])) == []
    (finding,) = network.judge_routes([subnet("us-east-2a")], [main, own])
    assert "subnet-0000000a" in finding.what


def test_a_subnet_that_is_not_there(aws: StubbedAws) -> None:
    aws.fails("ec2", "describe_subnets", "InvalidSubnetID.NotFound", "subnet-0000000b does not exist")
    (finding,) = network.network(scope_of(aws, EXISTING))
    assert (finding.level, "subnet-0000000b" in finding.what) == ("blocker", True)


def test_without_a_vpc_nothing_is_asked(aws: StubbedAws) -> None:
    assert list(network.network(scope_of(aws))) == []


ISOLATED = experiment_with(
    (
        'zone = "us-east-2b"',
        f'zone = "us-east-2b"\nvpc_id = "{VPC}"\nbucket = "kept-bucket"\n'
        f'subnets = {{ us-east-2b = "subnet-0000000b", us-east-2a = "subnet-0000000a" }}',
    ),
    (
        "[serving]",
        """[network]
internet = false
image_prefix = "111122223333.dkr.ecr.{region}.amazonaws.com/mirror"
neuron_chart = "oci://111122223333.dkr.ecr.{region}.amazonaws.com/charts/neuron-helm-chart"
python_index = "https://artifacts.corp.internal/simple"
llmperf_source = "https://artifacts.corp.internal/llmperf.tar.gz"
llmperf_tokenizer = "https://artifacts.corp.internal/tokenizer"

[serving]""",
    ),
)


@pytest.mark.parametrize(
    ("absent", "level", "said"),
    [
        ((), "ok", VPC),
        (("eks-auth", "lambda"), "blocker", "no endpoint with private DNS for eks-auth, lambda"),
    ],
)
def test_a_vpc_without_a_way_out_needs_endpoints_and_no_default_route(
    aws: StubbedAws, absent: tuple[str, ...], level: str, said: str
) -> None:
    answers(aws, [subnet("us-east-2b")], [S3], dns=True)
    endpoints = [
        {"ServiceName": f"com.amazonaws.us-east-2.{name}", "State": "available", "PrivateDnsEnabled": True}
        for name in ENDPOINTS
        if name not in absent
    ]
    aws.answers("ec2", "describe_vpc_endpoints", {"VpcEndpoints": endpoints})
    (finding,) = network.network(scope_of(aws, ISOLATED))
    assert finding.level == level
    assert said in finding.what


def look_ups(aws: StubbedAws, *, rules: list[str], missing: str | None) -> None:
    listed = [{"ecrRepositoryPrefix": prefix} for prefix in rules]
    aws.answers("ecr", "describe_pull_through_cache_rules", {"pullThroughCacheRules": listed})
    for place in mirror.pulled(ISOLATED, "us-east-2").values():
        if missing is not None and missing in place:
            aws.fails("ecr", "describe_images", "RepositoryNotFoundException")
        else:
            aws.answers("ecr", "describe_images", {"imageDetails": [{}]})


@pytest.mark.parametrize(
    ("rules", "missing", "level", "said"),
    [
        ([], None, "ok", "all 5 images and charts"),
        ([], "neuron-dra-driver", "blocker", "the mirror lacks 111122223333.dkr.ecr.us-east-2"),
        ([], "neuron-helm-chart", "blocker", "neuron-helm-chart:1.10.0"),
        (["mirror"], "neuron-dra-driver", "ok", "holds or fetches all 5"),
    ],
)
def test_a_mirror_that_lacks_an_image_is_a_blocker(
    aws: StubbedAws, rules: list[str], missing: str | None, level: str, said: str
) -> None:
    look_ups(aws, rules=rules, missing=missing)
    (finding,) = mirror.mirror(scope_of(aws, ISOLATED))
    assert finding.level == level
    assert said in finding.what
    assert level == "ok" or " && crane copy public.ecr.aws/neuron/" in (finding.remedy or "")
    assert level == "ok" or "aws ecr create-repository --region us-east-2 " in (finding.remedy or "")


def test_a_mirror_in_another_region_or_registry_is_told(aws: StubbedAws) -> None:
    elsewhere = ISOLATED.network.model_copy(
        update={
            "image_prefix": "registry.corp.internal/mirror",
            "neuron_chart": "oci://111122223333.dkr.ecr.eu-west-1.amazonaws.com/neuron-helm-chart",
        }
    )
    aws.answers("ecr", "describe_pull_through_cache_rules", {"pullThroughCacheRules": []})
    found = list(mirror.mirror(scope_of(aws, ISOLATED.model_copy(update={"network": elsewhere}))))
    assert sorted(finding.level for finding in found) == ["blocker", *["unknown"] * 4]
    assert any("whose ECR has no endpoint in a VPC of us-east-2" in finding.what for finding in found)


def test_nothing_is_asked_of_a_mirror_where_there_is_none(aws: StubbedAws) -> None:
    assert list(mirror.mirror(scope_of(aws, EXISTING))) == []
