"""Whether the search for remains knows all that a stack can leave."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, cast

import pytest

from specdec.preflight import leftovers
from specdec.preflight.leftovers import KINDS, find
from tests.conftest import NAME
from tests.operate.conftest import REGION, StubbedAws, experiment_with
from tests.operate.orphans import Orphans
from tests.stack.synthesis import EVERYTHING, template

pytestmark = pytest.mark.slow

FOUND_AS = {
    "AWS::Budgets::Budget": "budget",
    "AWS::CloudWatch::Alarm": "alarm",
    "AWS::CloudWatch::Dashboard": "dashboard",
    "AWS::EC2::EIP": "ec2 elastic-ip",
    "AWS::EC2::FlowLog": "ec2 vpc-flow-log",
    "AWS::EC2::InternetGateway": "ec2 internet-gateway",
    "AWS::EC2::LaunchTemplate": "ec2 launch-template",
    "AWS::EC2::NatGateway": "ec2 natgateway",
    "AWS::EC2::PlacementGroup": "ec2 placement-group",
    "AWS::EC2::RouteTable": "ec2 route-table",
    "AWS::EC2::SecurityGroup": "ec2 security-group",
    "AWS::EC2::Subnet": "ec2 subnet",
    "AWS::EC2::VPC": "ec2 vpc",
    "AWS::EC2::VPCEndpoint": "ec2 vpc-endpoint",
    "AWS::EKS::Cluster": "cluster",
    "AWS::IAM::Role": "role",
    "AWS::KMS::Key": "kms key",
    "AWS::Lambda::Function": "lambda function",
    "AWS::SNS::Topic": "sns topic",
    "AWS::Logs::LogGroup": "log group",
    "AWS::S3::Bucket": "bucket",
    "AWS::SSM::Parameter": "ssm parameter",
    "AWS::Scheduler::Schedule": "schedule",
}
PART_OF_ANOTHER = {
    "AWS::EC2::Route",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::EKS::AccessEntry",
    "AWS::EKS::Addon",
    "AWS::EKS::Nodegroup",
    "AWS::EKS::PodIdentityAssociation",
    "AWS::IAM::Policy",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::Subscription",
    "AWS::SNS::TopicPolicy",
}
"""Cannot outlive what they belong to, which is found itself."""
NOT_FOUND = {"AWS::Lambda::LayerVersion"}
"""Has neither tags nor a name of the stack; costs nothing, and stands in nobody's way."""


def test_whatever_the_stack_makes_is_found_if_it_is_left() -> None:
    kinds = {resource["Type"] for resource in template(*EVERYTHING).resources.values()}
    kinds = {kind for kind in kinds if not kind.startswith("Custom::")}
    assert kinds == FOUND_AS.keys() | PART_OF_ANOTHER | NOT_FOUND
    assert set(FOUND_AS.values()) <= KINDS


@pytest.mark.parametrize(("state", "listed"), [("available", True), ("deleting", False), ("deleted", False)])
def test_a_placement_group_that_is_going_is_not_left(state: str, listed: bool, aws: StubbedAws) -> None:
    aws.fails("cloudformation", "describe_stacks", "ValidationError", "Stack with id a does not exist")
    aws.answers("eks", "list_clusters", {"clusters": []})
    for _ in range(4):
        aws.answers("logs", "describe_log_groups", {"logGroups": []})
    aws.answers("cloudwatch", "list_dashboards", {"DashboardEntries": []})
    aws.answers("cloudwatch", "describe_alarms", {"MetricAlarms": []})
    aws.answers("s3", "list_buckets", {"Buckets": []})
    for _ in range(2):
        aws.answers("ec2", "describe_network_interfaces", {"NetworkInterfaces": []})
    aws.answers("ec2", "describe_volumes", {"Volumes": []})
    aws.answers("scheduler", "list_schedules", {"Schedules": []})
    aws.answers("iam", "list_roles", {"Roles": [], "IsTruncated": False})
    for tags in ([{"ResourceType": "placement-group", "ResourceId": "pg-1"}], [], []):
        aws.answers("resourcegroupstaggingapi", "get_resources", {"ResourceTagMappingList": []})
        aws.answers("ec2", "describe_tags", {"Tags": tags})
        if tags:
            group = {"GroupId": "pg-1", "GroupName": "efa", "State": state}
            aws.answers("ec2", "describe_placement_groups", {"PlacementGroups": [group]})
    found = find(experiment_with(), REGION, aws.clients)
    assert [leftover.name for leftover in found] == (["efa"] if listed else [])


def test_every_kind_that_is_known_is_planted_for_the_drill() -> None:
    def nobody(service: str) -> None:
        pytest.fail(f"{service} was asked")

    planted = Orphans(nobody, region="us-east-2", stack="a-us-east-2", experiment="a").kinds.keys()
    # A stack is shown alone; the drill's own is there to be shown.
    assert planted == KINDS - {"stack"}


@pytest.mark.parametrize(
    ("experiment", "described", "listed"),
    [
        ("a-quite-long-name-it-is", "a-quite-long-name-it-is--Handler3F0-abcdEFGH1234-0f3c", True),
        ("a-quite-long-name-it-is", "a-quite-long-name-it-was-Handler3F0-abcdEFGH1234-0f3c", False),
        ("ab", "ab-us-east-2-Handler3F0-abcdEFGH1234-0f3c", True),
        ("ab", "ab-us-east-20-Handler3F0-abcdEFGH1234-0f3c", False),
    ],
)
def test_an_interface_is_found_by_the_name_of_its_function_as_cloudformation_cut_it(
    experiment: str, described: str, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    interface = {"NetworkInterfaceId": "eni-1", "Description": f"AWS Lambda VPC ENI-{described}"}

    def describe(_: object, operation: str, key: str, **asked: Any) -> list[dict[str, str]]:
        (by,) = asked["Filters"]
        patterns: list[str] = by["Values"] if by["Name"] == "description" else []
        return [interface] if any(fnmatchcase(interface["Description"], each) for each in patterns) else []

    def client(service: str) -> None:
        assert service == "ec2"

    monkeypatch.setattr(leftovers, "pages", describe)
    wanted = experiment_with((NAME, f'name = "{experiment}"'))
    search = leftovers._interfaces  # pyright: ignore[reportPrivateUsage]
    found = search(wanted, wanted.stack_name(REGION), REGION, cast("Any", client))
    assert bool(list(found)) is listed
