"""Zones, address range, and whether the person who deploys will get into the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdec.aws import calls, pages
from specdec.deployed.stack import stack_status
from specdec.preflight.account import principal_of
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def zones(scope: Scope) -> Iterator[Finding]:
    """The control plane's two zones must exist and offer the system node."""
    if scope.experiment.placement[scope.region].vpc_id is not None:
        return
    kind = scope.experiment.capacity.system_instance_type
    with calls():
        answer = scope.clients("ec2").describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [kind]}]
        )
    yield judge_zones(
        [offer["Location"] for offer in answer["InstanceTypeOfferings"]],
        wanted=scope.experiment.zones(scope.region)[:2],
        kind=kind,
        region=scope.region,
    )


def judge_zones(offered: Sequence[str], *, wanted: Sequence[str], kind: str, region: str) -> Finding:
    """Compares the zones that offer the system node with the control plane's two."""
    missing = [zone for zone in wanted if zone not in offered]
    if missing:
        listed = ", ".join(sorted(offered)) or "no zone"
        return Finding(
            "zones",
            "blocker",
            f"{kind} is not offered in {' and '.join(missing)}, where the control plane and the system node"
            f" will run, but in {listed}",
            f"Set placement.{region}.zones, two of these first; a deployed stack keeps its first two",
        )
    return Finding("zones", "ok", f"the control plane's zones {' and '.join(wanted)} offer {kind}")


def address_range(scope: Scope) -> Iterator[Finding]:
    """The range of a network that exists cannot change: CloudFormation would replace it under the cluster."""
    if stack_status(scope.clients, scope.stack) is None:
        return
    with calls():
        resources = pages(
            scope.clients("cloudformation"),
            "list_stack_resources",
            "StackResourceSummaries",
            StackName=scope.stack,
        )
        ids = [
            resource["PhysicalResourceId"]
            for resource in resources
            if resource["ResourceType"] == "AWS::EC2::VPC"
        ]
        networks: list[dict[str, Any]] = scope.clients("ec2").describe_vpcs(VpcIds=ids)["Vpcs"] if ids else []
    for network in networks:
        yield judge_range(str(network["CidrBlock"]), wanted=scope.experiment.cluster.vpc_cidr)


def judge_range(there: str, *, wanted: str) -> Finding:
    """Compares the range of the deployed network with the experiment's."""
    if there != wanted:
        return Finding(
            "address range",
            "blocker",
            f"the deployed network has {there}, the experiment {wanted}, and a cluster cannot move",
            f'Set cluster.vpc_cidr = "{there}", or destroy the stack and deploy it anew',
        )
    return Finding("address range", "ok", f"the deployed network has the experiment's range {there}")


def access(scope: Scope) -> Iterator[Finding]:
    """Only access entries open the cluster, so whoever deploys must be named to use kubectl. Who gets into a
    cluster that exists is for its owners to say.
    """
    if scope.experiment.placement[scope.region].cluster_name is not None:
        return
    with calls():
        principal = principal_of(scope)
    yield judge_access(principal, admins=scope.experiment.cluster.admin_principal_arns, caller=scope.caller)


def judge_access(principal: str, *, admins: Sequence[str], caller: str) -> Finding:
    """Looks for the caller among the administrators."""
    if principal in admins:
        return Finding("access", "ok", f"{principal} will be an administrator of the cluster")
    remedy = f'Under [cluster]: admin_principal_arns = ["{principal}"]'
    if caller.endswith(":root"):
        remedy = "Name a role in cluster.admin_principal_arns; the root user should have no access entry"
    return Finding(
        "access",
        "warning",
        f"{principal} is not in cluster.admin_principal_arns, so kubectl, `specdec run` and the state of"
        " pods will be out of its reach",
        remedy,
    )
