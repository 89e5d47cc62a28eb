"""A cluster that exists is used: what it has is left alone, what it lacks is the stack's."""

import json

import pytest

from specdec.errors import BadInputError
from specdec.experiment.reading import parse
from tests.stack.synthesis import DEFAULT, Template, template
from tests.stack.test_existing_network import SUBNETS

pytestmark = pytest.mark.slow

ROLE = "arn:aws:iam::111122223333:role/Kubectl"
PLACE = f'zone = "us-east-2b"\nvpc_id = "vpc-0000a1b0"\n{SUBNETS}'
CLUSTER = f'{PLACE}\ncluster_name = "shared"\ncluster_security_group_id = "sg-0000a1b0"'
EXISTING = (('zone = "us-east-2b"', CLUSTER),)
FULL = (
    (
        'zone = "us-east-2b"',
        f"""{CLUSTER}
kubectl_role_arn = "{ROLE}"
cluster_has_neuron = true
cluster_addons = [
    "amazon-cloudwatch-observability",
    "aws-mountpoint-s3-csi-driver",
    "coredns",
    "eks-node-monitoring-agent",
    "eks-pod-identity-agent",
    "kube-proxy",
    "vpc-cni",
]""",
    ),
)


@pytest.fixture(scope="module")
def existing() -> Template:
    return template(*EXISTING)


@pytest.fixture(scope="module")
def full() -> Template:
    return template(*FULL)


def test_no_cluster_is_made_and_what_it_has_is_left_alone(existing: Template) -> None:
    assert existing.of_type("AWS::EKS::Cluster") == {}
    added = {addon["Properties"]["AddonName"] for addon in existing.of_type("AWS::EKS::Addon").values()}
    assert added == {
        "amazon-cloudwatch-observability",
        "aws-mountpoint-s3-csi-driver",
        "eks-node-monitoring-agent",
    }
    assert not any(
        "/aws/eks/" in json.dumps(group) for group in existing.of_type("AWS::Logs::LogGroup").values()
    )


def test_everything_of_the_stack_is_in_the_cluster(existing: Template, full: Template) -> None:
    for made in (existing, full):
        for kind in ("Nodegroup", "Addon", "PodIdentityAssociation", "AccessEntry"):
            for resource in made.of_type(f"AWS::EKS::{kind}").values():
                assert resource["Properties"]["ClusterName"] == "shared"
        for kind in ("KubernetesResource", "HelmChart"):
            for resource in made.of_type(f"Custom::AWSCDK-EKS-{kind}").values():
                assert resource["Properties"]["ClusterName"] == "shared"


def test_our_kubectl_gets_in_by_an_entry_of_ours_before_the_first_object(existing: Template) -> None:
    entry = existing.only("AWS::EKS::AccessEntry")
    assert [policy["AccessScope"] for policy in entry["AccessPolicies"]] == [{"Type": "cluster"}]
    assert "AmazonEKSClusterAdminPolicy" in json.dumps(entry["AccessPolicies"])
    name = existing.named("ClusterKubectlAccess", "AWS::EKS::AccessEntry")
    for kind in ("KubernetesResource", "HelmChart"):
        for resource in existing.of_type(f"Custom::AWSCDK-EKS-{kind}"):
            assert name in existing.needs(resource)


def test_the_kubectl_function_reaches_a_private_api(existing: Template) -> None:
    inside = [
        function["Properties"]["VpcConfig"]
        for function in existing.of_type("AWS::Lambda::Function").values()
        if "VpcConfig" in function["Properties"]
    ]
    assert inside
    for network in inside:
        assert network == {
            "SecurityGroupIds": ["sg-0000a1b0"],
            "SubnetIds": ["subnet-0000000a", "subnet-0000000c"],
        }


def test_what_is_all_there_adds_nodes_and_workloads_alone(full: Template) -> None:
    assert full.of_type("AWS::EKS::Addon") == {}
    assert full.of_type("AWS::EKS::AccessEntry") == {}
    assert full.of_type("Custom::AWSCDK-EKS-HelmChart") == {}
    assert len(full.of_type("AWS::EKS::Nodegroup")) == 2
    handlers = [f for f in full.of_type("AWS::Lambda::Function").values() if f["Properties"]["Role"] == ROLE]
    assert len(handlers) == 1
    groups = [
        group["Properties"].get("LogGroupName") for group in full.of_type("AWS::Logs::LogGroup").values()
    ]
    assert not any(str(name).startswith("/aws/containerinsights/") for name in groups)


def test_nothing_that_exists_is_an_object_of_a_resource_that_changes_it(
    existing: Template, full: Template
) -> None:
    theirs = (ROLE, "sg-0000a1b0", "vpc-0000a1b0", "subnet-0000000a", "subnet-0000000b", "subnet-0000000c")
    users = {
        "AWS::EKS::Nodegroup",
        "AWS::Lambda::Function",
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::LaunchTemplate",
        "AWS::IAM::Policy",
    }
    for made in (existing, full):
        for resource in made.resources.values():
            if any(name in json.dumps(resource) for name in theirs):
                assert resource["Type"] in users
        for policy in made.of_type("AWS::IAM::Policy").values():
            assert ROLE not in json.dumps(policy["Properties"].get("Roles"))
        assert made.of_type("AWS::EC2::SecurityGroupIngress") == {}


def test_dashboards_are_named_after_the_experiment(existing: Template) -> None:
    names = {
        board["Properties"]["DashboardName"]
        for board in existing.of_type("AWS::CloudWatch::Dashboard").values()
    }
    assert names == {"qwen3-specdec-us-east-2", "qwen3-specdec-us-east-2-machine"}
    assert "shared" in json.dumps(existing.of_type("AWS::CloudWatch::Dashboard"))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('zone = "us-east-2b"\ncluster_name = "shared"', "vpc_id: is missing beside cluster_name"),
        (f'{PLACE}\ncluster_name = "shared"', "cluster_security_group_id"),
        (f'{PLACE}\nkubectl_role_arn = "{ROLE}"', "none is named"),
        (f'{CLUSTER}\ncluster_addons = ["cilium"]', "cilium"),
        (f'{CLUSTER}\nkubectl_role_arn = "Kubectl"', "kubectl_role_arn"),
        (f'{CLUSTER}\n[cluster]\nadmin_principal_arns = ["{ROLE}"]', "cluster.admin_principal_arns"),
    ],
)
def test_a_wrong_cluster_is_named(lines: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        parse(DEFAULT.replace('zone = "us-east-2b"', lines))
