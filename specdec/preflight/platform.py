"""Whether EKS has what the stack asks for: Kubernetes version, add-ons for it, node image for it, and the
services around it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import calls, code, pages
from specdec.catalog.addons import ADDONS
from specdec.catalog.kubernetes import SUPPORT
from specdec.catalog.service_prices import CONTROL_PLANE_EXTENDED
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SERVICES = (
    "cloudformation",
    "cloudwatch",
    "ec2",
    "ecr",
    "eks",
    "iam",
    "kms",
    "lambda",
    "logs",
    "s3",
    "ssm",
    "sts",
)
"""Services whose endpoints the stack or its nodes call."""


def kubernetes(scope: Scope) -> Iterator[Finding]:
    """The Kubernetes version must be offered, and costs six times as much once it is in extended support."""
    wanted = scope.experiment.cluster.kubernetes_version
    with calls():
        answer = pages(scope.clients("eks"), "describe_cluster_versions", "clusterVersions")
    versions = {
        # The older field spells the same words in lower case with hyphens.
        version["clusterVersion"]: (
            str(version.get("versionStatus") or version.get("status", "")).upper().replace("-", "_")
        )
        for version in answer
    }
    yield judge_kubernetes(versions, wanted=wanted, region=scope.region, today=datetime.now(UTC).date())


SOON = timedelta(days=90)
"""How long before the end of standard support a version is warned of."""


def judge_kubernetes(versions: dict[str, str], *, wanted: str, region: str, today: date) -> Finding:
    """Reads the version table of EKS, version to status, and the calendar of the catalogue."""
    supported = {version for version, status in versions.items() if status != "UNSUPPORTED"}
    if wanted not in supported:
        offered = ", ".join(sorted(supported, key=_release)) or "none"
        return Finding(
            "kubernetes",
            "blocker",
            f"EKS does not offer {wanted} in {region}; it offers {offered}",
            "Set cluster.kubernetes_version to one of these",
        )
    if versions[wanted] == "EXTENDED_SUPPORT":
        return Finding(
            "kubernetes",
            "warning",
            f"{wanted} is in extended support, at {CONTROL_PLANE_EXTENDED.usd:.2f} USD an hour",
            "Set cluster.kubernetes_version to a newer one",
        )
    ends = SUPPORT[wanted].standard_until
    if ends is not None and ends - today <= SOON:
        return Finding(
            "kubernetes",
            "warning",
            f"standard support of {wanted} ends on {ends}; EKS upgrades the cluster then; extended support"
            f" would cost {CONTROL_PLANE_EXTENDED.usd:.2f} USD an hour",
            "Set cluster.kubernetes_version to a newer one",
        )
    return Finding("kubernetes", "ok", f"EKS offers {wanted} in {region}")


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def addons(scope: Scope) -> Iterator[Finding]:
    """Every add-on must have a version for this Kubernetes version; a version that the experiment pins must
    be one of them.
    """
    version, pinned = scope.experiment.cluster.kubernetes_version, scope.experiment.cluster.addon_versions
    for name in ADDONS:
        with calls():
            answer = pages(
                scope.clients("eks"),
                "describe_addon_versions",
                "addons",
                addonName=name,
                kubernetesVersion=version,
            )
        versions: list[dict[str, Any]] = [entry for addon in answer for entry in addon["addonVersions"]]
        yield judge_addon(
            [entry["addonVersion"] for entry in versions],
            name=name,
            kubernetes=version,
            pinned=pinned.get(name),
        )


def judge_addon(versions: Sequence[str], *, name: str, kubernetes: str, pinned: str | None) -> Finding:
    """Reads the versions of one add-on that fit the Kubernetes version, newest first."""
    if not versions:
        return Finding(
            "add-ons",
            "blocker",
            f"{name} has no version for Kubernetes {kubernetes}",
            "Set cluster.kubernetes_version to an older one",
        )
    if pinned is not None and pinned not in versions:
        return Finding(
            "add-ons",
            "blocker",
            f"{name} {pinned} does not work with Kubernetes {kubernetes}",
            f'Set cluster.addon_versions.{name} = "{versions[0]}"',
        )
    return Finding(
        "add-ons",
        "ok",
        f"{name}"
        f" {pinned or f'has {len(versions)} versions for Kubernetes {kubernetes}, newest {versions[0]}'}",
    )


def image(scope: Scope) -> Iterator[Finding]:
    """EKS publishes the recommended node image with the Neuron driver as an SSM parameter, by Kubernetes
    version.
    """
    version = scope.experiment.cluster.kubernetes_version
    name = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/x86_64/neuron/recommended/image_id"
    with calls():
        try:
            value = str(scope.clients("ssm").get_parameter(Name=name)["Parameter"]["Value"])
        except ClientError as error:
            if code(error) != "ParameterNotFound":
                raise
            value = None
    yield judge_image(value, kubernetes=version, region=scope.region)


def judge_image(value: str | None, *, kubernetes: str, region: str) -> Finding:
    """Reads the id of the node image; None where there is none."""
    if value is None:
        return Finding(
            "node image",
            "blocker",
            f"no Amazon Linux 2023 image with the Neuron driver for {kubernetes} in {region}",
            "Set cluster.kubernetes_version to an older one",
        )
    return Finding(
        "node image", "ok", f"{value} (Amazon Linux 2023 with the Neuron driver, Kubernetes {kubernetes})"
    )


def endpoints(scope: Scope) -> Iterator[Finding]:
    """Whether the region has every service, by the endpoint table inside botocore; nothing is called."""
    import botocore.session

    table = botocore.session.get_session()
    missing = [
        service
        for service in SERVICES
        if service != "iam" and scope.region not in table.get_available_regions(service)
    ]
    yield judge_endpoints(missing, region=scope.region)


def judge_endpoints(missing: Sequence[str], *, region: str) -> Finding:
    """The endpoint table can be older than a new region, so an absent entry is a warning."""
    if missing:
        return Finding(
            "endpoints",
            "warning",
            f"no endpoint known in {region} for {', '.join(missing)}",
            "Look it up: AWS console > Regional services",
        )
    return Finding("endpoints", "ok", f"all {len(SERVICES)} services have an endpoint in {region}")
