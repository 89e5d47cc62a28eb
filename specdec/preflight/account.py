"""Who is asking, whether the CDK may work here, and whether the region is open to the account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import UnknownCallerError, calls, code
from specdec.deployed.clients import HOME
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

BOOTSTRAP_PARAMETER = "/cdk-bootstrap/{qualifier}/version"
"""Where ``cdk bootstrap`` writes its version. Source: bootstrap-template.yaml in the CDK CLI."""

BOOTSTRAP_NEEDED = 6
"""Lowest bootstrap version a stack of this CDK deploys with. Source: ``requiresBootstrapStackVersion`` in the
cloud assembly.
"""

BOOTSTRAP_RECENT = 21
"""From this version on, the bootstrap bucket and roles carry the hardening against foreign buckets (aws-cdk
v2.149, 2024).
"""

_ROLES = ("deploy-role", "file-publishing-role", "lookup-role")


def identity(scope: Scope) -> Iterator[Finding]:
    """Says which account and identity everything below is about."""
    wanted = scope.experiment.account.id
    if wanted not in (None, scope.account):
        yield Finding(
            "identity",
            "blocker",
            f"these are credentials of account {scope.account} ({scope.caller}), and account.id is {wanted}",
            "Use credentials of that account, or correct account.id",
        )
        return
    yield Finding("identity", "ok", f"account {scope.account} as {scope.caller}")
    if scope.caller.endswith(":root"):
        yield Finding(
            "identity",
            "warning",
            "this is the account's root user",
            "Use a role: IAM console > Roles, or IAM Identity Center",
        )


def region(scope: Scope) -> Iterator[Finding]:
    """A region that the account has not opted into answers no other question."""
    name = scope.region
    try:
        status = _opt_in(scope.clients("ec2"), name)
    except UnknownCallerError:
        status = _opt_in(scope.clients("ec2", region=HOME), name)
    yield judge_region(name, status)


def _opt_in(ec2: Any, name: str) -> str | None:
    with calls():
        try:
            regions: list[dict[str, Any]] = ec2.describe_regions(RegionNames=[name], AllRegions=True)[
                "Regions"
            ]
        except ClientError as error:
            if code(error) != "InvalidParameterValue":
                raise
            regions = []
    return str(regions[0].get("OptInStatus", "opt-in-not-required")) if regions else None


def judge_region(name: str, status: str | None) -> Finding:
    """Reads the opt-in status of a region; None where AWS knows no such region."""
    if status is None:
        return Finding(
            "region", "blocker", f"AWS knows no region {name}", "Correct regions in the experiment file"
        )
    if status == "not-opted-in":
        return Finding(
            "region",
            "blocker",
            f"{name} is not enabled for this account",
            f"aws account enable-region --region-name {name}",
        )
    return Finding("region", "ok", f"{name} is enabled")


def bootstrap(scope: Scope) -> Iterator[Finding]:
    """``cdk deploy`` needs the bootstrap stack in the account and region."""
    name = BOOTSTRAP_PARAMETER.format(qualifier=scope.experiment.account.bootstrap_qualifier)
    with calls():
        try:
            value = scope.clients("ssm").get_parameter(Name=name)["Parameter"]["Value"]
        except ClientError as error:
            if code(error) != "ParameterNotFound":
                raise
            value = None
    yield judge_bootstrap(value, account=scope.account, name=scope.region)


def judge_bootstrap(value: str | None, *, account: str, name: str) -> Finding:
    """Reads the bootstrap version; None where there is none."""
    remedy = f"uv run npx cdk bootstrap aws://{account}/{name}"
    if value is None:
        return Finding("bootstrap", "blocker", f"the CDK is not bootstrapped in {name}", remedy)
    if not value.isdigit() or int(value) < BOOTSTRAP_NEEDED:
        return Finding(
            "bootstrap", "blocker", f"bootstrap version {value} is older than {BOOTSTRAP_NEEDED}", remedy
        )
    if int(value) < BOOTSTRAP_RECENT:
        return Finding(
            "bootstrap", "warning", f"bootstrap version {value} is older than {BOOTSTRAP_RECENT}", remedy
        )
    return Finding("bootstrap", "ok", f"bootstrap version {value}")


def permissions(scope: Scope) -> Iterator[Finding]:
    """The caller deploys by assuming the roles that bootstrapping made. IAM itself says whether it may."""
    if scope.caller.endswith(":root"):
        yield Finding("permissions", "ok", "the root user may assume every role")
        return
    rules = scope.experiment.account
    partition = scope.caller.split(":")[1]
    start = f"arn:{partition}:iam::{scope.account}:role/cdk-{rules.bootstrap_qualifier}"
    roles = [f"{start}-{role}-{scope.account}-{scope.region}" for role in _ROLES]
    if rules.deploy_role_arn is not None:
        roles[0] = rules.deploy_role_arn
    with calls():
        principal = principal_of(scope)
        answer = scope.clients("iam").simulate_principal_policy(
            PolicySourceArn=principal, ActionNames=["sts:AssumeRole"], ResourceArns=roles
        )
    results = answer["EvaluationResults"]
    # One result per action; with several resources the single verdicts are nested.
    verdicts = {
        single["EvalResourceName"]: single["EvalResourceDecision"]
        for result in results
        for single in result.get("ResourceSpecificResults", [])
    } or {result["EvalResourceName"]: result["EvalDecision"] for result in results}
    yield judge_permissions(verdicts)


def principal_of(scope: Scope) -> str:
    """The IAM identity behind the caller: the session of an assumed role has no policies of its own, but its
    role has.
    """
    if ":assumed-role/" not in scope.caller:
        return scope.caller
    name = scope.caller.split(":assumed-role/", 1)[1].split("/", 1)[0]
    return str(scope.clients("iam").get_role(RoleName=name)["Role"]["Arn"])


def judge_permissions(verdicts: dict[str, str]) -> Finding:
    """Reads IAM's verdicts by role ARN. A role's own trust policy can still refuse, which no simulation
    shows.
    """
    refused = sorted(arn.rsplit("/", 1)[-1] for arn, verdict in verdicts.items() if verdict != "allowed")
    if refused:
        return Finding(
            "permissions",
            "warning",
            f"may not assume {', '.join(refused)}; the CDK would fall back to the caller's own permissions",
            "Allow sts:AssumeRole on these roles",
        )
    return Finding("permissions", "ok", "may assume the CDK's deployment roles")
