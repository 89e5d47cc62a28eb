"""Every added resource type, through CloudFormation: made, changed in place, replaced and deleted as AWS
documents it.
"""

from __future__ import annotations

import importlib.metadata
import json
import time
from typing import Any

import pytest

from specdec.rehearsal.emulator import EmbeddedAws, Session
from specdec.rehearsal.emulator.resources import TYPES, camel

Properties = dict[str, Any]
REGION = "us-east-2"
ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        }
    },
}
NETWORK = {
    "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.1.0.0/16"}},
    "Subnet": {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.1.0.0/24"},
    },
}
CLUSTER = {
    "Role": ROLE,
    **NETWORK,
    "Cluster": {
        "Type": "AWS::EKS::Cluster",
        "Properties": {
            "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
            "ResourcesVpcConfig": {"SubnetIds": [{"Ref": "Subnet"}]},
        },
    },
}


class Stack:
    """A stack of the embedded account that is made, changed and deleted to the end."""

    def __init__(self, session: Session, name: str) -> None:
        self._client, self.name = session.client("cloudformation"), name
        self._id = name

    def create(self, resources: Properties) -> None:
        self._id = self._client.create_stack(
            StackName=self.name, TemplateBody=self._body(resources), Capabilities=["CAPABILITY_IAM"]
        )["StackId"]
        self._settle("CREATE_COMPLETE")

    def update(self, resources: Properties) -> None:
        self._client.update_stack(
            StackName=self.name, TemplateBody=self._body(resources), Capabilities=["CAPABILITY_IAM"]
        )
        self._settle("UPDATE_COMPLETE")

    def delete(self) -> None:
        self._client.delete_stack(StackName=self.name)
        self._settle("DELETE_COMPLETE")

    def reference(self, resource: str) -> str:
        """What Ref gives."""
        details = self._client.describe_stack_resource(StackName=self.name, LogicalResourceId=resource)[
            "StackResourceDetail"
        ]
        return details["PhysicalResourceId"]

    def status(self) -> str:
        return self._client.describe_stacks(StackName=self._id)["Stacks"][0]["StackStatus"]

    def reasons(self) -> list[str]:
        events = self._client.describe_stack_events(StackName=self._id)["StackEvents"]
        return [
            event["ResourceStatusReason"] for event in events if event["ResourceStatus"].endswith("_FAILED")
        ]

    def _body(self, resources: Properties) -> str:
        return json.dumps({"Resources": resources})

    def _settle(self, wanted: str) -> None:
        deadline = time.monotonic() + 60
        while self.status().endswith("IN_PROGRESS"):
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.05)
        assert self.status() == wanted, self.reasons()


@pytest.fixture
def session(account: EmbeddedAws) -> Session:
    return account.session(REGION)


@pytest.fixture
def stack(session: Session, request: pytest.FixtureRequest) -> Stack:
    return Stack(session, request.node.name.replace("_", "-"))


def with_tag(value: str) -> Properties:
    return {"Tags": [{"Key": "experiment", "Value": value}]}


def network(tag: str, subnet: str = "Subnet") -> Properties:
    gateway = {
        "SubnetId": {"Ref": subnet},
        "AllocationId": {"Fn::GetAtt": ["Address", "AllocationId"]},
        **with_tag(tag),
    }
    log = {
        "ResourceType": "VPC",
        "ResourceId": {"Ref": "Vpc"},
        "TrafficType": "ALL",
        "LogGroupName": "flow",
        **with_tag(tag),
    }
    group = {"GroupDescription": "g", "VpcId": {"Ref": "Vpc"}}
    rule = {
        "GroupId": {"Fn::GetAtt": ["Group", "GroupId"]},
        "IpProtocol": "tcp",
        "FromPort": 443,
        "ToPort": 443,
    }
    other = {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.1.1.0/24"}}
    return {
        **NETWORK,
        "Other": other,
        "Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc", **with_tag(tag)}},
        "Gateway": {"Type": "AWS::EC2::NatGateway", "Properties": gateway},
        "Log": {"Type": "AWS::EC2::FlowLog", "Properties": log},
        "Group": {"Type": "AWS::EC2::SecurityGroup", "Properties": group},
        "In": {"Type": "AWS::EC2::SecurityGroupIngress", "Properties": {**rule, "CidrIp": "10.1.0.0/16"}},
        "Out": {"Type": "AWS::EC2::SecurityGroupEgress", "Properties": {**rule, "CidrIp": "10.2.0.0/16"}},
    }


def test_network_types(stack: Stack, session: Session) -> None:
    ec2 = session.client("ec2")
    stack.create(network("one"))
    address, gateway, log = (stack.reference(name) for name in ("Address", "Gateway", "Log"))
    assert ec2.describe_addresses(PublicIps=[address])["Addresses"][0]["Tags"] == with_tag("one")["Tags"]
    assert ec2.describe_nat_gateways(NatGatewayIds=[gateway])["NatGateways"][0][
        "SubnetId"
    ] == stack.reference("Subnet")
    assert [item["ResourceId"] for item in ec2.describe_flow_logs()["FlowLogs"]] == [stack.reference("Vpc")]
    group = next(
        item
        for item in ec2.describe_security_groups()["SecurityGroups"]
        if item["VpcId"] == stack.reference("Vpc") and item["Description"] == "g"
    )
    assert group["IpPermissions"][0]["IpRanges"][0]["CidrIp"] == "10.1.0.0/16"
    assert "10.2.0.0/16" in str(group["IpPermissionsEgress"])

    stack.update(network("two"))
    assert (stack.reference("Address"), stack.reference("Gateway"), stack.reference("Log")) == (
        address,
        gateway,
        log,
    ), "tags change in place"
    assert ec2.describe_addresses(PublicIps=[address])["Addresses"][0]["Tags"] == with_tag("two")["Tags"]

    stack.update(network("two", "Other"))
    assert stack.reference("Gateway") != gateway, "another subnet needs another gateway"
    assert ec2.describe_nat_gateways(NatGatewayIds=[gateway])["NatGateways"][0]["State"] == "deleted"

    stack.delete()
    assert ec2.describe_addresses()["Addresses"] == []
    assert ec2.describe_flow_logs()["FlowLogs"] == []
    assert {item["State"] for item in ec2.describe_nat_gateways()["NatGateways"]} == {"deleted"}


def cluster(tag: str, values: str, role: str = "Role") -> Properties:
    name, arn = {"Ref": "Cluster"}, {"Fn::GetAtt": [role, "Arn"]}
    policy = {
        "PolicyArn": f"arn:aws:eks::aws:cluster-access-policy/{values}",
        "AccessScope": {"Type": "cluster"},
    }
    addon = {
        "ClusterName": name,
        "AddonName": "amazon-cloudwatch-observability",
        "ConfigurationValues": json.dumps({"v": values}),
        "PodIdentityAssociations": [{"ServiceAccount": "cloudwatch-agent", "RoleArn": arn}],
        **with_tag(tag),
    }
    association = {
        "ClusterName": name,
        "Namespace": "specdec",
        "ServiceAccount": "server",
        "RoleArn": arn,
        **with_tag(tag),
    }
    entry = {
        "ClusterName": name,
        "PrincipalArn": {"Fn::GetAtt": ["Role", "Arn"]},
        "AccessPolicies": [policy],
        **with_tag(tag),
    }
    return {
        **CLUSTER,
        "Second": ROLE,
        "Addon": {"Type": "AWS::EKS::Addon", "Properties": addon},
        "Association": {"Type": "AWS::EKS::PodIdentityAssociation", "Properties": association},
        "Entry": {"Type": "AWS::EKS::AccessEntry", "Properties": entry},
    }


def test_cluster_types(stack: Stack, session: Session) -> None:
    eks = session.client("eks")
    stack.create(cluster("one", "AmazonEKSViewPolicy"))
    name, principal = (
        stack.reference("Cluster"),
        session.client("iam").get_role(RoleName=stack.reference("Role"))["Role"]["Arn"],
    )
    first = stack.reference("Association")
    associations = {
        item["serviceAccount"]: item["namespace"]
        for item in eks.list_pod_identity_associations(clusterName=name)["associations"]
    }
    assert associations == {"server": "specdec", "cloudwatch-agent": "amazon-cloudwatch"}
    assert stack.reference("Addon") == f"{name}|amazon-cloudwatch-observability"
    assert stack.reference("Entry") == f"{principal}|{name}"

    stack.update(cluster("two", "AmazonEKSClusterAdminPolicy", role="Second"))
    assert stack.reference("Association") == first, "role and tags change in place"
    found = eks.describe_pod_identity_association(clusterName=name, associationId=first.rsplit("/", 1)[1])[
        "association"
    ]
    assert found["roleArn"].endswith(stack.reference("Second"))
    addon = eks.describe_addon(clusterName=name, addonName="amazon-cloudwatch-observability")["addon"]
    assert json.loads(addon["configurationValues"]) == {"v": "AmazonEKSClusterAdminPolicy"}
    policies = eks.list_associated_access_policies(clusterName=name, principalArn=principal)[
        "associatedAccessPolicies"
    ]
    assert [policy["policyArn"] for policy in policies] == [
        "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    ]

    stack.delete()
    assert name not in eks.list_clusters()["clusters"]


def bucket(days: int, algorithm: str = "AES256") -> Properties:
    default = {"SSEAlgorithm": algorithm}
    rule = {
        "Id": "old",
        "Status": "Enabled",
        "Prefix": "runs/",
        "ExpirationInDays": days,
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
    }
    properties = {
        "BucketEncryption": {
            "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": default}]
        },
        "LifecycleConfiguration": {"Rules": [rule]},
        **with_tag("one"),
    }
    return {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": properties}}


def test_a_bucket_keeps_its_properties_and_refuses_to_go_while_full(stack: Stack, session: Session) -> None:
    s3 = session.client("s3")
    stack.create(bucket(10))
    name = stack.reference("Bucket")
    assert s3.get_bucket_tagging(Bucket=name)["TagSet"] == with_tag("one")["Tags"]
    stack.update(bucket(20))
    (rule,) = s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"]
    assert (rule["Expiration"], rule["AbortIncompleteMultipartUpload"]) == (
        {"Days": 20},
        {"DaysAfterInitiation": 1},
    )

    s3.put_object(Bucket=name, Key="a", Body=b"x")
    with pytest.raises(AssertionError, match="not empty"):
        stack.delete()
    assert stack.status() == "DELETE_FAILED"
    s3.delete_object(Bucket=name, Key="a")
    stack.delete()


def alarm(threshold: int) -> Properties:
    metric = {"Metric": {"Namespace": "N", "MetricName": "m"}, "Period": 300, "Stat": "Sum"}
    queries = [
        {"Id": "m", "MetricStat": metric, "ReturnData": False},
        {"Id": "e", "Expression": "m * 2", "ReturnData": True},
    ]
    properties = {
        "Metrics": queries,
        "Threshold": threshold,
        "EvaluationPeriods": 1,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    return {"Alarm": {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}}


def test_an_alarm_over_an_expression_is_kept_under_a_name_of_its_stack(
    stack: Stack, session: Session
) -> None:
    cloudwatch = session.client("cloudwatch")
    stack.create(alarm(1))
    name = stack.reference("Alarm")
    assert name.startswith(f"{stack.name}-Alarm-")
    stack.update(alarm(2))
    assert stack.reference("Alarm") == name
    assert cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]["Threshold"] == 2.0
    stack.delete()
    assert cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"] == []


def budget(amount: int) -> Properties:
    subscriber = {"Address": "a@example.com", "SubscriptionType": "EMAIL"}
    notification = {"ComparisonOperator": "GREATER_THAN", "NotificationType": "ACTUAL", "Threshold": 80}
    limit = {
        "BudgetName": "drill",
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": amount, "Unit": "USD"},
    }
    properties = {
        "Budget": limit,
        "NotificationsWithSubscribers": [{"Notification": notification, "Subscribers": [subscriber]}],
    }
    return {"Budget": {"Type": "AWS::Budgets::Budget", "Properties": properties}}


def test_a_budget(stack: Stack, session: Session) -> None:
    budgets = session.client("budgets")

    def limits() -> list[str]:
        return [
            item["BudgetLimit"]["Amount"]
            for item in budgets.describe_budgets(AccountId="111122223333")["Budgets"]
        ]

    stack.create(budget(100))
    assert limits() == ["100"]
    stack.update(budget(200))
    assert limits() == ["200"]
    stack.delete()
    assert limits() == []


def test_interfaces_and_parameters_are_found_by_what_is_asked_for(session: Session) -> None:
    ec2, tag = session.client("ec2"), with_tag("searched")["Tags"]
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    described, tagged = (
        ec2.create_network_interface(SubnetId=subnet, Description=text)["NetworkInterface"][
            "NetworkInterfaceId"
        ]
        for text in ("AWS Lambda VPC ENI-searched-1", "other")
    )
    ec2.create_tags(Resources=[tagged], Tags=tag)

    def found(name: str, value: str) -> list[str]:
        interfaces = ec2.describe_network_interfaces(Filters=[{"Name": name, "Values": [value]}])[
            "NetworkInterfaces"
        ]
        return [interface["NetworkInterfaceId"] for interface in interfaces]

    assert found("description", "AWS Lambda VPC ENI-searched-*") == [described]
    assert found("tag:experiment", "searched") == [tagged]
    assert found("description", "nothing") == []

    session.client("ssm").put_parameter(Name="searched", Value="v", Type="String", Tags=tag)
    answer = session.client("resourcegroupstaggingapi").get_resources(
        TagFilters=[{"Key": "experiment", "Values": ["searched"]}]
    )
    assert [entry["ResourceARN"].rsplit("/", 1)[-1] for entry in answer["ResourceTagMappingList"]] == [
        "searched"
    ]


FUNCTION = "def handler(event, context): raise RuntimeError('this function is broken')"


def test_a_function_that_cannot_answer_fails_the_stack_at_once(stack: Stack) -> None:
    function = {
        "Runtime": "python3.13",
        "Handler": "index.handler",
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Code": {"ZipFile": FUNCTION},
    }
    resources = {
        "Role": ROLE,
        "Function": {"Type": "AWS::Lambda::Function", "Properties": function},
        "Custom": {
            "Type": "Custom::Thing",
            "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}},
        },
    }
    started = time.monotonic()
    with pytest.raises(AssertionError, match="this function is broken"):
        stack.create(resources)
    assert time.monotonic() - started < 60, "CloudFormation itself would wait for an hour"


def test_the_emulator_is_the_one_whose_inner_names_are_used() -> None:
    assert importlib.metadata.version("ministack") == "1.5.33"
    assert "AWS::EC2::NatGateway" in TYPES


def test_template_names_become_api_names() -> None:
    assert camel({"RoleArn": [{"AccessScope": {"Type": "cluster"}}], "N": 1}) == {
        "roleArn": [{"accessScope": {"type": "cluster"}}],
        "n": 1,
    }
