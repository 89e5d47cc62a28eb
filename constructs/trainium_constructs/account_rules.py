"""What an account's owners ask of every resource of a kind, applied to the finished stack."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import aws_cdk as cdk

if TYPE_CHECKING:
    from collections.abc import Iterator


_NAME_LIMIT = 64
"""Longest name of a role, characters: IAM user guide, "IAM and AWS STS quotas"."""

_WITH_PATH = ("AWS::IAM::Role", "AWS::IAM::InstanceProfile", "AWS::IAM::ManagedPolicy")


def follow_account_rules(
    stack: cdk.Stack,
    *,
    permissions_boundary: str | None,
    role_path: str,
    role_prefix: str,
    log_key_arn: str | None,
) -> None:
    """Gives every role its boundary, path and name, and every log group its key. Called last.

    It walks over resources instead of passing the rules to each construct, because most roles and some log
    groups are made inside constructs of the CDK, which take no such argument.

    Args:
        stack: the finished stack.
        permissions_boundary: ARN of a managed policy; None for none.
        role_path: path of roles, instance profiles and managed policies; ``/`` is IAM's own.
        role_prefix: start of role names; empty leaves the names to CloudFormation.
        log_key_arn: ARN of the key of every log group; None leaves them to CloudWatch's own.
    """
    for resource in _resources(stack):
        kind = resource.cfn_resource_type
        if kind == "AWS::IAM::Role":
            if permissions_boundary is not None:
                resource.add_property_override("PermissionsBoundary", permissions_boundary)
            if role_prefix:
                resource.add_property_override("RoleName", _role_name(stack, resource, role_prefix))
        if kind in _WITH_PATH and role_path != "/":
            resource.add_property_override("Path", role_path)
        if kind == "AWS::Logs::LogGroup" and log_key_arn is not None:
            resource.add_property_override("KmsKeyId", log_key_arn)


def _resources(stack: cdk.Stack) -> Iterator[cdk.CfnResource]:
    return (node for node in stack.node.find_all() if isinstance(node, cdk.CfnResource))


def _role_name(stack: cdk.Stack, role: cdk.CfnResource, prefix: str) -> str:
    """Prefix, stack and what the role is for, with a hash that keeps shortened names apart."""
    logical_id = str(stack.resolve(role.logical_id))
    full_name = f"{prefix}{stack.stack_name}-{logical_id}"
    digest = hashlib.sha256(full_name.encode()).hexdigest()[:8]
    return f"{full_name[: _NAME_LIMIT - len(digest) - 1]}-{digest}"
