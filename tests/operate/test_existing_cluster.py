"""A cluster that exists is looked at before a deployment fails in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specdec.preflight import cluster as checks
from specdec.preflight import placing
from tests.operate.conftest import StubbedAws, experiment_with, scope_of

ROLE = "arn:aws:iam::111122223333:role/teams/Kubectl"
PLACE = """zone = "us-east-2b"
vpc_id = "vpc-0000000a"
subnets = { us-east-2b = "subnet-0000000b", us-east-2a = "subnet-0000000a" }
cluster_name = "shared"
cluster_security_group_id = "sg-0000000a"
"""
EXISTING = experiment_with(('zone = "us-east-2b"', PLACE))
WITH_ROLE = experiment_with(('zone = "us-east-2b"', PLACE + f'kubectl_role_arn = "{ROLE}"\n'))
HAD = ("coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni")
ENFORCING = {"configurationValues": '{"enableNetworkPolicy": "true"}'}
ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
LAMBDA = {"Statement": {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "*"}}


def facts(**changes: Any) -> dict[str, Any]:
    return {
        "name": "shared",
        "status": "ACTIVE",
        "version": "1.35",
        "accessConfig": {"authenticationMode": "API"},
        "resourcesVpcConfig": {
            "vpcId": "vpc-0000000a",
            "clusterSecurityGroupId": "sg-0000000a",
            "endpointPrivateAccess": True,
        },
    } | changes


def addon(name: str, **fields: Any) -> dict[str, Any]:
    more = ENFORCING if name == "vpc-cni" else {}
    return {"addonName": name, "addonVersion": "v1.2.3-eksbuild.1", "status": "ACTIVE", **more, **fields}


def answers(aws: StubbedAws, found: dict[str, Any], addons: list[dict[str, Any]]) -> None:
    aws.answers("eks", "describe_cluster", {"cluster": found})
    aws.answers("eks", "list_addons", {"addons": [one["addonName"] for one in addons]})
    for one in addons:
        aws.answers("eks", "describe_addon", {"addon": one})


def names(aws: StubbedAws, groups: list[str], accounts: list[str]) -> None:
    aws.fails("cloudformation", "describe_stacks", "ValidationError", "Stack does not exist")
    aws.answers("eks", "list_nodegroups", {"nodegroups": groups})
    associations = [{"serviceAccount": account, "namespace": "specdec"} for account in accounts]
    aws.answers("eks", "list_pod_identity_associations", {"associations": associations})


def said(aws: StubbedAws, **scope: Any) -> list[tuple[str, str, str]]:
    found = checks.cluster(scope_of(aws, scope.get("experiment", EXISTING)))
    return [(finding.level, finding.what, finding.remedy or "") for finding in found]


@pytest.fixture(autouse=True)
def no_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


def test_a_cluster_that_has_everything_is_fine_but_for_what_kubernetes_alone_tells(aws: StubbedAws) -> None:
    answers(aws, facts(), [addon(name) for name in HAD])
    names(aws, ["system-abc"], [])
    found = said(aws)
    assert [level for level, *_ in found] == ["ok", "unknown"]
    assert "kubectl is not installed" in found[1][1]


@pytest.mark.parametrize(
    ("changes", "words", "remedy"),
    [
        ({"version": "1.33"}, "runs Kubernetes 1.33, and the experiment is made for 1.35", "1.33"),
        ({"status": "CREATING"}, "is CREATING", "cluster-active"),
        (
            {"accessConfig": {"authenticationMode": "CONFIG_MAP"}},
            "knows no access entries",
            "authenticationMode=API_AND_CONFIG_MAP",
        ),
        (
            {"resourcesVpcConfig": facts()["resourcesVpcConfig"] | {"vpcId": "vpc-9"}},
            "has vpc-9, not vpc-0000000a",
            'vpc_id = "vpc-9"',
        ),
        (
            {"resourcesVpcConfig": facts()["resourcesVpcConfig"] | {"clusterSecurityGroupId": "sg-9"}},
            "has sg-9, not sg-0000000a",
            'cluster_security_group_id = "sg-9"',
        ),
    ],
)
def test_a_cluster_of_another_kind_is_a_blocker(
    aws: StubbedAws, changes: dict[str, Any], words: str, remedy: str
) -> None:
    answers(aws, facts(**changes), [addon(name) for name in HAD])
    names(aws, [], [])
    blockers = [(what, how) for level, what, how in said(aws) if level == "blocker"]
    assert len(blockers) == 1
    assert words in blockers[0][0]
    assert remedy in blockers[0][1]


@pytest.mark.parametrize(
    ("addons", "level", "words"),
    [
        ([addon(n) for n in HAD if n != "eks-pod-identity-agent"], "blocker", "no Pod Identity agent"),
        ([addon(n) for n in HAD if n != "coredns"], "blocker", "no add-on coredns"),
        (
            [
                *map(addon, HAD),
                addon("aws-mountpoint-s3-csi-driver", tags={"aws:cloudformation:stack-name": "platform"}),
            ],
            "blocker",
            "aws-mountpoint-s3-csi-driver v1.2.3-eksbuild.1, which stack platform owns",
        ),
        ([addon(n, status="CREATE_FAILED") for n in HAD], "blocker", "is CREATE_FAILED"),
        (
            [addon(n) for n in HAD[:3]] + [addon("vpc-cni", configurationValues="{}")],
            "warning",
            "network pol",
        ),
    ],
)
def test_add_ons_are_compared_with_the_file(
    aws: StubbedAws, addons: list[dict[str, Any]], level: str, words: str
) -> None:
    answers(aws, facts(), addons)
    names(aws, [], [])
    assert any(found == level and words in what for found, what, _ in said(aws))


def test_add_ons_of_ours_are_no_strangers(aws: StubbedAws) -> None:
    own = addon("aws-mountpoint-s3-csi-driver", tags={"experiment": "qwen3-specdec"})
    answers(aws, facts(), [*map(addon, HAD), own])
    aws.answers("cloudformation", "describe_stacks", {"Stacks": [STACK]})
    assert [level for level, *_ in said(aws)] == ["ok"]


STACK = {"StackName": "s", "CreationTime": "2026-11-29T12:00:00Z", "StackStatus": "CREATE_COMPLETE"}


def test_names_that_are_taken_are_blockers(aws: StubbedAws) -> None:
    answers(aws, facts(), [addon(name) for name in HAD])
    names(aws, ["accelerator-us-east-2b-on-demand"], ["server"])
    blockers = [what for level, what, _ in said(aws) if level == "blocker"]
    assert "node group accelerator-us-east-2b-on-demand" in blockers[0]
    assert "server in the namespace specdec" in blockers[1]


@pytest.mark.parametrize(
    ("trust", "policies", "level", "words"),
    [
        (LAMBDA, [ADMIN], None, ""),
        ({"Statement": []}, [ADMIN], "blocker", "does not let Lambda assume it"),
        (LAMBDA, None, "blocker", "has no access entry"),
        (LAMBDA, [], "unknown", "is told by Kubernetes alone"),
    ],
)
def test_a_kubectl_role_is_read(
    aws: StubbedAws, trust: dict[str, Any], policies: list[str] | None, level: str | None, words: str
) -> None:
    answers(aws, facts(), [addon(name) for name in HAD])
    names(aws, [], [])
    role = {"Path": "/", "RoleName": "Kubectl", "RoleId": "A" * 16, "Arn": ROLE}
    document = json.dumps(trust)
    made = {"CreateDate": "2026-11-29T12:00:00Z", "AssumeRolePolicyDocument": document}
    aws.answers("iam", "get_role", {"Role": role | made})
    if policies is None:
        aws.fails("eks", "list_associated_access_policies", "ResourceNotFoundException")
    else:
        listed = [{"policyArn": arn} for arn in policies]
        aws.answers("eks", "list_associated_access_policies", {"associatedAccessPolicies": listed})
    found = [(finding, what) for finding, what, _ in said(aws, experiment=WITH_ROLE) if "Kubectl" in what]
    assert [finding for finding, _ in found] == ([level] if level else [])
    assert all(words in what for _, what in found)


def test_a_cluster_that_is_not_there_names_those_that_are(aws: StubbedAws) -> None:
    aws.fails("eks", "describe_cluster", "ResourceNotFoundException")
    aws.answers("eks", "list_clusters", {"clusters": ["platform", "other"]})
    ((level, what, remedy),) = said(aws)
    assert (level, what) == ("blocker", "there is no cluster shared in us-east-2")
    assert "platform, other" in remedy


def test_nothing_is_asked_where_the_stack_makes_its_own(aws: StubbedAws) -> None:
    assert said(aws, experiment=experiment_with()) == []
    assert list(placing.access(scope_of(aws, EXISTING))) == []
