import json
from typing import Any

import pytest

from tests.stack.synthesis import EVERYTHING, Template, as_list, flat, template

pytestmark = pytest.mark.slow

KEPT = ('zone = "us-east-2b"', 'bucket = "kept-bucket"\nzone = "us-east-2b"')
MANAGED_POLICIES = {
    "AmazonEKSClusterPolicy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonElasticContainerRegistryPublicReadOnly",
    "AmazonSSMManagedInstanceCore",
    "CloudWatchAgentServerPolicy",
    "service-role/AWSLambdaBasicExecutionRole",
    "service-role/AWSLambdaVPCAccessExecutionRole",
}
"""AWS managed policies, each of which exists: AWS managed policy reference guide, read 2026-11-29."""


def statements(found: Template, role_start: str) -> list[dict[str, Any]]:
    role = found.named(role_start, "AWS::IAM::Role")
    return [
        statement
        for policy in found.of_type("AWS::IAM::Policy").values()
        if {"Ref": role} in policy["Properties"]["Roles"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]


def allowed(found: Template, role_start: str, action: str) -> set[str]:
    """Resources on which the role may do this, the bucket as ``bucket``."""
    resources: set[str] = set()
    for statement in statements(found, role_start):
        if action in as_list(statement["Action"]):
            listed = [flat(one) for one in as_list(statement["Resource"])]
            resources |= {"bucket" + one.partition(">")[2] if "ModelStore" in one else one for one in listed}
    return resources


def test_the_bucket_is_closed_and_encrypted() -> None:
    bucket = template().only("AWS::S3::Bucket")
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    assert bucket["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    assert "VersioningConfiguration" not in bucket


def test_the_bucket_policy_only_denies() -> None:
    """Under the public access block, an Allow for everyone would be refused in the middle of a deployment."""
    found = template().only("AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    assert {statement["Effect"] for statement in found} == {"Deny"}
    assert {"Bool": {"aws:SecureTransport": "false"}} in [statement["Condition"] for statement in found]


def test_what_expires() -> None:
    rules = {
        rule["Id"]: rule for rule in template().only("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]
    }
    assert rules["aborted-uploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    assert (rules["old-runs"]["Prefix"], rules["old-runs"]["ExpirationInDays"]) == ("runs/", 365)
    assert all(
        "models" not in json.dumps(rule) and "artifacts" not in json.dumps(rule) for rule in rules.values()
    )


def test_the_bucket_is_kept_or_emptied_by_choice() -> None:
    (kept,) = template().of_type("AWS::S3::Bucket").values()
    assert kept["DeletionPolicy"] == kept["UpdateReplacePolicy"] == "Retain"
    assert not template().of_type("Custom::S3AutoDeleteObjects")
    (emptied,) = template(*EVERYTHING).of_type("AWS::S3::Bucket").values()
    assert emptied["DeletionPolicy"] == "Delete"
    assert len(template(*EVERYTHING).of_type("Custom::S3AutoDeleteObjects")) == 1


def test_a_kept_bucket_is_used_and_not_owned() -> None:
    found = template(KEPT)
    assert not found.of_type("AWS::S3::Bucket")
    assert "kept-bucket" in json.dumps(found.manifests)
    assert allowed(found, "PodAccessServerRole", "s3:GetObject") == {
        f"arn:aws:s3:::kept-bucket/{prefix}/*" for prefix in ("models", "artifacts")
    }


@pytest.mark.parametrize(
    ("account", "reads", "writes"),
    [
        ("Server", {"bucket/models/*", "bucket/artifacts/*"}, {"bucket/artifacts/*"}),
        ("Stager", {"bucket/models/*"}, {"bucket/models/*"}),
        ("Benchmark", {"bucket/runs/*"}, {"bucket/runs/*"}),
    ],
)
def test_who_may_read_and_write_what(account: str, reads: set[str], writes: set[str]) -> None:
    found = template()
    role = f"PodAccess{account}Role"
    assert allowed(found, role, "s3:GetObject") == reads
    assert allowed(found, role, "s3:PutObject") == writes
    assert allowed(found, role, "s3:DeleteObject") == set()
    (listing,) = [one for one in statements(found, role) if one["Action"] == "s3:ListBucket"]
    prefixes = {one.removeprefix("bucket/").removesuffix("/*") for one in reads}
    assert {one.removesuffix("/*") for one in listing["Condition"]["StringLike"]["s3:prefix"]} == prefixes
    association = found.only("AWS::EKS::PodIdentityAssociation", ServiceAccount=account.lower())
    assert association["Namespace"] == "specdec"


@pytest.mark.parametrize(
    ("secret", "arn"),
    [
        ("hub-token", "arn:aws:secretsmanager:us-east-2:<AWS::AccountId>:secret:hub-token-??????"),
        (
            "arn:aws:secretsmanager:us-east-2:111122223333:secret:x-AbCdEf",
            "arn:aws:secretsmanager:us-east-2:111122223333:secret:x-AbCdEf",
        ),
    ],
)
def test_only_the_stager_reads_the_token_and_only_that_secret(secret: str, arn: str) -> None:
    found = template(("[serving]", f'[serving]\nhf_token_secret = "{secret}"'))
    action = "secretsmanager:GetSecretValue"
    assert allowed(found, "PodAccessStagerRole", action) == {arn}
    assert json.dumps(found.of_type("AWS::IAM::Policy")).count(action) == 1
    assert "secretsmanager:" not in json.dumps(template().of_type("AWS::IAM::Policy"))


def test_metrics_go_to_our_namespaces_only() -> None:
    (metrics,) = [
        one
        for one in statements(template(), "PodAccessBenchmarkRole")
        if one["Action"] == "cloudwatch:PutMetricData"
    ]
    assert metrics["Condition"] == {
        "StringEquals": {"cloudwatch:namespace": ["SpecDec/Exact", "SpecDec/Run", "Qwen/LLMPerf"]}
    }


def test_only_the_benchmark_looks_metrics_up() -> None:
    """Its publisher does, before it repeats a call whose answer was lost."""
    found = template(*EVERYTHING)
    assert allowed(found, "PodAccessBenchmarkRole", "cloudwatch:GetMetricStatistics") == {"*"}
    assert json.dumps(found.of_type("AWS::IAM::Policy")).count("cloudwatch:GetMetricStatistics") == 1


def test_pod_roles_trust_one_service_account_of_one_cluster() -> None:
    found = template()
    roles = [
        role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        for role in found.of_type("AWS::IAM::Role").values()
        if "pods.eks" in json.dumps(role["Properties"]["AssumeRolePolicyDocument"])
    ]
    assert len(roles) == 5
    accounts: set[str] = set()
    for trust in roles:
        assert {action for one in trust for action in as_list(one["Action"])} == {
            "sts:AssumeRole",
            "sts:TagSession",
        }
        for one in trust:
            condition = one["Condition"]["StringEquals"]
            assert condition.keys() == {
                f"aws:RequestTag/{tag}"
                for tag in ("eks-cluster-name", "kubernetes-namespace", "kubernetes-service-account")
            }
            accounts.add(condition["aws:RequestTag/kubernetes-service-account"])
    assert accounts == {"aws-node", "cloudwatch-agent", "server", "stager", "benchmark"}


def test_no_policy_is_wide_or_unknown() -> None:
    found = template(*EVERYTHING)
    text = json.dumps(found.body)
    assert "FullAccess" not in text
    named = {
        part.rpartition("iam::aws:policy/")[2]
        for role in found.of_type("AWS::IAM::Role").values()
        for part in json.dumps(role["Properties"].get("ManagedPolicyArns", [])).replace('"', " ").split()
        if "iam::aws:policy/" in part
    }
    assert named <= MANAGED_POLICIES
    assert len(named) >= 9
    for policy in found.of_type("AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            assert "*" not in json.dumps(statement["Action"])
            if statement["Resource"] == "*":
                # Metrics are no resources; nothing but the namespace narrows writing, and nothing at all
                # narrows reading.
                assert statement["Action"] in ("cloudwatch:PutMetricData", "cloudwatch:GetMetricStatistics")
                assert statement.get("Condition") or statement["Action"] == "cloudwatch:GetMetricStatistics"


def test_nothing_listens_to_the_internet() -> None:
    for kind in ("AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress"):
        for group in template(*EVERYTHING).of_type(kind).values():
            properties = group["Properties"]
            assert "0.0.0.0/0" not in json.dumps(properties.get("SecurityGroupIngress", [])) + json.dumps(
                properties.get("CidrIp", "")
            )
