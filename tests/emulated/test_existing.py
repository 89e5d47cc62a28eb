"""Two examples side by side in one account and region: one in a VPC that exists, one in a cluster that
exists. The real CDK deploys and destroys both, their objects arrive, and what existed is as before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import charts
from specdec.deployed.clients import Clients
from specdec.experiment.reading import load
from specdec.preflight import leftovers
from specdec.rehearsal.cdk import Cdk
from specdec.rehearsal.emulator import CHECKOUT, Session
from tests.emulated.account import DrilledAws
from tests.emulated.examples import name_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1000)]

REGION, HOME = "sa-east-1", "ap-southeast-4"
"""Where they go here, and where the examples are: CloudFormation makes no budgets there."""
ZONES = (f"{REGION}a", f"{REGION}c")
IN_VPC, IN_CLUSTER = "five-dollars", "one-node"
"""Examples: one chip each, two services on two nodes, and one after the other on one."""
HAD = ("coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni")
MORE = """
[store]
on_destroy = "empty"

[guards]
notify = "team@example.com"
monthly_budget_usd = 100.0
"""

Facts = dict[str, Any]


def company(session: Session) -> Facts:
    """What a company has: a VPC with two subnets and a route to S3, and a cluster with its add-ons."""
    ec2, eks = session.client("ec2"), session.client("eks")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnets = {
        zone: ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{number}.0/24", AvailabilityZone=zone)["Subnet"][
            "SubnetId"
        ]
        for number, zone in enumerate(ZONES)
    }
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    for subnet in subnets.values():
        ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    service = f"com.amazonaws.{REGION}.s3"
    ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=service, RouteTableIds=[table])
    group = ec2.create_security_group(GroupName="shared-cluster", Description="of EKS", VpcId=vpc)["GroupId"]
    role = session.client("iam").create_role(
        RoleName="shared-cluster", AssumeRolePolicyDocument=json.dumps({"Statement": []})
    )["Role"]["Arn"]
    eks.create_cluster(
        name="shared",
        roleArn=role,
        version="1.35",
        resourcesVpcConfig={"subnetIds": list(subnets.values()), "securityGroupIds": [group]},
        accessConfig={"authenticationMode": "API"},
        tags={"team": "platform"},
    )
    while eks.describe_cluster(name="shared")["cluster"]["status"] != "ACTIVE":
        time.sleep(0.1)
    for name in HAD:
        eks.create_addon(clusterName="shared", addonName=name, tags={"team": "platform"})
    return {"vpc": vpc, "subnets": subnets, "group": group}


def existing(session: Session, company: Facts) -> Facts:
    """Everything that AWS tells of what the company has."""
    ec2, eks, vpc = session.client("ec2"), session.client("eks"), company["vpc"]
    of_vpc = [{"Name": "vpc-id", "Values": [vpc]}]
    found = {
        "vpc": ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"],
        "subnets": ec2.describe_subnets(SubnetIds=list(company["subnets"].values()))["Subnets"],
        "route tables": ec2.describe_route_tables(Filters=of_vpc)["RouteTables"],
        "endpoints": ec2.describe_vpc_endpoints(Filters=of_vpc)["VpcEndpoints"],
        "security groups": ec2.describe_security_groups(Filters=of_vpc)["SecurityGroups"],
        "cluster": eks.describe_cluster(name="shared")["cluster"],
        "node groups": eks.list_nodegroups(clusterName="shared")["nodegroups"],
        "add-ons": [
            eks.describe_addon(clusterName="shared", addonName=name)["addon"]
            for name in sorted(eks.list_addons(clusterName="shared")["addons"])
        ],
        "entries": eks.list_access_entries(clusterName="shared")["accessEntries"],
        "associations": eks.list_pod_identity_associations(clusterName="shared")["associations"],
        "role": session.client("iam").get_role(RoleName="shared-cluster")["Role"],
        "policies": session.client("iam").list_role_policies(RoleName="shared-cluster")["PolicyNames"],
    }
    return json.loads(json.dumps(found, default=str))


def names(session: Session, stack: str) -> Facts:
    """Names of one experiment's things that are unique in an account and region."""
    cloudwatch, account = session.client("cloudwatch"), session.client("sts").get_caller_identity()["Account"]
    boards = [entry["DashboardName"] for entry in cloudwatch.list_dashboards()["DashboardEntries"]]
    budgets = session.client("budgets").describe_budgets(AccountId=account)["Budgets"]
    resources = session.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
    return {
        "dashboards": sorted(name for name in boards if name.startswith(stack)),
        "budgets": [budget["BudgetName"] for budget in budgets if budget["BudgetName"] == stack],
        "ids": {(one["ResourceType"], one["PhysicalResourceId"]) for one in resources},
    }


@pytest.fixture(scope="module")
def lived(npm_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Facts]:
    folder = tmp_path_factory.mktemp("existing")
    with DrilledAws(folder / "aws") as aws:
        session = aws.session(REGION)
        theirs = company(session)
        subnets = ", ".join(f'{zone} = "{subnet}"' for zone, subnet in theirs["subnets"].items())
        place = f'zone = "{ZONES[1]}"\nvpc_id = "{theirs["vpc"]}"\nsubnets = {{ {subnets} }}'
        cluster = f'{place}\ncluster_name = "shared"\ncluster_security_group_id = "{theirs["group"]}"'
        for name, placed in ((IN_VPC, place), (IN_CLUSTER, cluster)):
            text = (CHECKOUT / "examples" / f"{name}.toml").read_text(encoding="utf-8")
            for old, new in ((HOME, REGION), (f'zone = "{ZONES[1]}"', placed)):
                assert old in text
                text = text.replace(old, new)
            (folder / f"{name}.toml").write_text(text + MORE, encoding="utf-8")
        before = existing(session, theirs)
        stacks = {name: Cdk(aws, folder / f"{name}.toml", folder / name) for name in (IN_VPC, IN_CLUSTER)}
        stacks[IN_VPC].synth()
        stacks[IN_VPC].bootstrap([REGION])
        for cdk in stacks.values():
            cdk.deploy()
        facts: Facts = {
            "before": before,
            "during": existing(session, theirs),
            "objects": {name_of(item) for item in aws.cluster(REGION).objects.values()},
            "names": {name: names(session, f"{name}-{REGION}") for name in stacks},
        }
        clients = Clients(session, REGION)
        facts["left"], facts["after one"], facts["experiments"] = {}, {}, {}
        for name, cdk in stacks.items():
            cdk.destroy()
            experiment = facts["experiments"][name] = load(folder / f"{name}.toml")
            found = leftovers.find(experiment, REGION, clients)
            facts["left"][name] = [leftover.plain() for leftover in found if leftover.kept is None]
            if name == IN_VPC:
                facts["after one"] = names(session, f"{IN_CLUSTER}-{REGION}")
        facts["after"] = existing(session, theirs)
        yield facts


def test_what_the_examples_say_is_in_the_clusters_and_nothing_else(lived: Facts) -> None:
    wanted = {
        name_of(item)
        for name in (IN_VPC, IN_CLUSTER)
        for chart in charts.build(lived["experiments"][name], region=REGION, bucket="b").values()
        for item in chart.to_json()
    }
    assert lived["objects"] == wanted


def test_what_existed_is_as_before(lived: Facts) -> None:
    assert lived["after"] == lived["before"]


def test_while_they_are_there_only_what_is_ours_is_added(lived: Facts) -> None:
    before, during = lived["before"], lived["during"]
    for unchanged in ("vpc", "subnets", "route tables", "endpoints", "cluster", "role", "policies"):
        assert during[unchanged] == before[unchanged], unchanged
    for added in ("security groups", "node groups", "add-ons", "entries", "associations"):
        assert [one for one in during[added] if one in before[added]] == before[added], added
    assert len(during["node groups"]) == 2
    assert {addon["addonName"] for addon in during["add-ons"]} == {
        *HAD,
        "amazon-cloudwatch-observability",
        "aws-mountpoint-s3-csi-driver",
        "eks-node-monitoring-agent",
    }
    for addon in during["add-ons"]:
        assert addon["tags"] == {"team": "platform"} or addon["tags"]["experiment"] == IN_CLUSTER


def test_nothing_is_left_of_either(lived: Facts) -> None:
    assert lived["left"] == {IN_VPC: [], IN_CLUSTER: []}


def test_two_experiments_share_no_name(lived: Facts) -> None:
    first, second = lived["names"][IN_VPC], lived["names"][IN_CLUSTER]
    assert first["dashboards"] == [f"{IN_VPC}-{REGION}", f"{IN_VPC}-{REGION}-machine"]
    assert second["dashboards"] == [f"{IN_CLUSTER}-{REGION}", f"{IN_CLUSTER}-{REGION}-machine"]
    assert (first["budgets"], second["budgets"]) == ([f"{IN_VPC}-{REGION}"], [f"{IN_CLUSTER}-{REGION}"])
    # Groups of nodes have one name in two clusters; what tells them apart is the cluster's.
    shared = {kind for kind, _ in first["ids"] & second["ids"]}
    assert shared <= {"AWS::EKS::Nodegroup", "AWS::EKS::Addon", "AWS::CDK::Metadata"}


def test_destroying_one_leaves_the_other_whole(lived: Facts) -> None:
    assert lived["after one"] == lived["names"][IN_CLUSTER]
