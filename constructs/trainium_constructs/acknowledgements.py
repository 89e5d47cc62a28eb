"""Findings of the security pack and of CloudFormation validation that were looked at and accepted, each with
its reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import aws_cdk as cdk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from constructs import IConstruct

MANAGED = "arn:<AWS::Partition>:iam::aws:policy/"


def acknowledge(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accepts findings on a construct and below it.

    Args:
        construct: where the findings are.
        reasons: id of a finding, as the report prints it, to why it is accepted.
    """
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=finding, reason=reason) for finding, reason in reasons.items())
    )


def managed_policy(name: str) -> str:
    """Id of the finding that a role has an AWS managed policy."""
    return f"AwsSolutions::AwsSolutions-IAM4[Policy::{MANAGED}{name}]"


def wildcard(resource: str) -> str:
    """Id of the finding that a policy names a resource with a wildcard."""
    return f"AwsSolutions::AwsSolutions-IAM5[Resource::{resource}]"


def as_reported(scope: IConstruct, value: str) -> str:
    """How the report prints a value that holds tokens: ``<LogicalId.Attribute>`` for each."""
    return _flat(cdk.Stack.of(scope).resolve(value))


def _flat(resolved: Any) -> str:
    match resolved:
        case str():
            return resolved
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(_flat(part) for part in cast("list[Any]", parts))
        case _:
            raise ValueError(f"no form in the report is known for {resolved!r}")
