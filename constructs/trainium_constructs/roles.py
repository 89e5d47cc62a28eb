"""IAM roles, each for one service and as narrow as that service allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aws_cdk import aws_iam as iam

from trainium_constructs.acknowledgements import acknowledge, managed_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from constructs import Construct


def service_role(
    scope: Construct,
    construct_id: str,
    *,
    service: str,
    conditions: Mapping[str, object] | None = None,
    session_tags: bool = False,
    managed_policies: Mapping[str, str] | None = None,
) -> iam.Role:
    """A role that one AWS service may assume.

    Args:
        scope: construct that owns the role.
        construct_id: construct id.
        service: service principal, e.g. ``ec2.amazonaws.com``.
        conditions: what else has to hold for it to be assumed.
        session_tags: whether the service tags its sessions.
        managed_policies: name of an AWS managed policy to why it is used instead of a narrower one.
    """
    principal: iam.PrincipalBase = iam.ServicePrincipal(service, conditions=conditions)
    if session_tags:
        principal = principal.with_session_tags()
    policies = managed_policies or {}
    role = iam.Role(
        scope,
        construct_id,
        # The stubs of PrincipalBase and IPrincipal name one parameter differently, nothing else.
        assumed_by=cast("iam.IPrincipal", principal),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in policies],
    )
    if policies:
        acknowledge(role, {managed_policy(name): reason for name, reason in policies.items()})
    return role


def pod_role(
    scope: Construct,
    construct_id: str,
    *,
    cluster_name: str,
    namespace: str,
    service_account: str,
    managed_policies: Mapping[str, str] | None = None,
) -> iam.Role:
    """A role for the pods of one Kubernetes service account, through EKS Pod Identity.

    EKS tags each session with cluster, namespace and service account; trusting only these tags keeps an
    association made elsewhere in the account from borrowing the role. Source: EKS user guide, "Create IAM
    role with trust policy required by EKS Pod Identity".
    """
    tags = {
        "eks-cluster-name": cluster_name,
        "kubernetes-namespace": namespace,
        "kubernetes-service-account": service_account,
    }
    return service_role(
        scope,
        construct_id,
        service="pods.eks.amazonaws.com",
        conditions={"StringEquals": {f"aws:RequestTag/{key}": value for key, value in tags.items()}},
        session_tags=True,
        managed_policies=managed_policies,
    )
