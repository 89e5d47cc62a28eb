"""Whether the account's own rules let the stack work: the permissions boundary and the key it has to use."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from specdec.aws import calls, code
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from specdec.experiment.fields import Experiment

NEEDED = (
    "cloudwatch:GetMetricStatistics",
    "cloudwatch:PutMetricData",
    "ec2:AssignPrivateIpAddresses",
    "ec2:DescribeInstances",
    "ecr:BatchGetImage",
    "ecr:GetAuthorizationToken",
    "eks-auth:AssumeRoleForPodIdentity",
    "eks:DescribeAddon",
    "eks:DescribeCluster",
    "eks:DescribeNodegroup",
    "eks:ListAddons",
    "logs:CreateLogStream",
    "logs:PutLogEvents",
    "s3:AbortMultipartUpload",
    "s3:GetObject",
    "s3:ListBucket",
    "s3:PutObject",
)
"""Actions that roles of every stack need: of nodes and agents by AWS's managed policies, of pods by ours."""

OWN_NETWORK = (
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:RevokeSecurityGroupEgress",
    "ec2:RevokeSecurityGroupIngress",
)
"""What closes the default security group of a VPC that the stack makes."""

KEY_ACTIONS = ("kms:Decrypt", "kms:GenerateDataKey")
"""What S3 and EKS do with a key on behalf of who reads or writes."""

_ALL = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]},
    allow_nan=False,
)


def needed_actions(experiment: Experiment, region: str) -> tuple[str, ...]:
    """Actions that the boundary must not take away from this experiment's roles."""
    more: list[str] = []
    if experiment.serving.hf_token_secret is not None:
        more.append("secretsmanager:GetSecretValue")
    if experiment.placement[region].kms_key_arn is not None:
        more += KEY_ACTIONS
    if experiment.placement[region].vpc_id is None:
        more += OWN_NETWORK
    guards = experiment.guards
    if guards.scale_down_at is not None or guards.scale_down_every_hours:
        more.append("eks:UpdateNodegroupConfig")
        if guards.notify is not None:
            more.append("sns:Publish")
    return (*NEEDED, *more)


def boundary(scope: Scope) -> Iterator[Finding]:
    """IAM itself evaluates the boundary's text against the actions that the roles need.

    The policy it is given allows everything, so that only the boundary can refuse. Conditions that depend on
    the caller are evaluated without a caller, which IAM reports as missing context.
    """
    arn = scope.experiment.account.permissions_boundary
    if arn is None:
        return
    iam = scope.clients("iam")
    with calls():
        try:
            version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        except ClientError as error:
            if code(error) != "NoSuchEntity":
                raise
            yield Finding(
                "boundary", "blocker", f"there is no policy {arn}", "Correct account.permissions_boundary"
            )
            return
        document = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]
        answer = iam.simulate_custom_policy(
            PolicyInputList=[_ALL],
            PermissionsBoundaryPolicyInputList=[json.dumps(document, allow_nan=False)],
            ActionNames=list(needed_actions(scope.experiment, scope.region)),
        )
    yield judge_boundary(arn, answer["EvaluationResults"])


def judge_boundary(arn: str, results: Iterable[Mapping[str, Any]]) -> Finding:
    """Reads IAM's decisions, one for each action."""
    refused = sorted(result["EvalActionName"] for result in results if result["EvalDecision"] != "allowed")
    if refused:
        return Finding(
            "boundary",
            "blocker",
            f"{arn} takes away {', '.join(refused)}, which the stack's roles need",
            "Allow these actions in the boundary, or name another boundary",
        )
    return Finding("boundary", "ok", f"{arn} leaves the roles what they need")


def key(scope: Scope) -> Iterator[Finding]:
    """A key that is disabled, or whose policy excludes the stack, would fail hours later, at the first
    object.
    """
    arn = scope.experiment.placement[scope.region].kms_key_arn
    if arn is None:
        return
    kms = scope.clients("kms")
    with calls():
        try:
            facts = kms.describe_key(KeyId=arn)["KeyMetadata"]
            policy = json.loads(kms.get_key_policy(KeyId=arn, PolicyName="default")["Policy"])
        except ClientError as error:
            if code(error) != "NotFoundException":
                raise
            yield Finding(
                "key", "blocker", f"there is no key {arn}", f"Correct placement.{scope.region}.kms_key_arn"
            )
            return
    yield judge_key(arn, facts, policy, region=scope.region)


def judge_key(arn: str, facts: Mapping[str, Any], policy: Mapping[str, Any], *, region: str) -> Finding:
    """Reads a key's state and its policy.

    Args:
        arn: the key.
        facts: ``KeyMetadata`` of DescribeKey.
        policy: the key's policy.
        region: where the log groups are; CloudWatch Logs uses the key as ``logs.<region>.amazonaws.com``
            (CloudWatch Logs user guide, "Encrypt log data using AWS KMS").
    """
    if facts.get("KeyState") != "Enabled" or facts.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        state = f"{facts.get('KeySpec', 'SYMMETRIC_DEFAULT')}, {facts.get('KeyState')}"
        return Finding(
            "key",
            "blocker",
            f"{arn} is {state}",
            "Use an enabled symmetric key for encrypting and decrypting",
        )
    _, partition, _, _, account, *_ = arn.split(":")
    missing: list[str] = []
    if not any(_lets(statement, account) for statement in statements_of(policy)):
        missing.append(f"the account's own IAM policies (principal arn:{partition}:iam::{account}:root)")
    if not any(_lets(statement, f"logs.{region}.amazonaws.com") for statement in statements_of(policy)):
        missing.append(f"logs.{region}.amazonaws.com")
    if missing:
        return Finding(
            "key",
            "blocker",
            f"the policy of {arn} does not let {' and '.join(missing)} use it",
            "Add kms:Encrypt*, kms:Decrypt*, kms:ReEncrypt*, kms:GenerateDataKey* and kms:Describe* for them",
        )
    return Finding("key", "ok", f"{arn} is enabled, and its policy lets the stack and its logs use it")


def statements_of(policy: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Statements of a policy, which may hold one by itself."""
    statements = policy.get("Statement", [])
    return [statements] if isinstance(statements, dict) else statements


def _lets(statement: Mapping[str, Any], principal: str) -> bool:
    """Whether a statement allows a principal to decrypt and to make data keys."""
    if statement.get("Effect") != "Allow":
        return False
    principals = statement.get("Principal", {})
    named = ["*"] if principals == "*" else [name for kind in principals.values() for name in _list(kind)]
    if not any(name in ("*", principal) or name.endswith(f":{principal}:root") for name in named):
        return False
    patterns = [str(action).lower().rstrip("*") for action in _list(statement.get("Action", []))]
    return all(any(action.lower().startswith(pattern) for pattern in patterns) for action in KEY_ACTIONS)


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]
