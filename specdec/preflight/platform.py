"""Whether EKS has what the stack asks for: Kubernetes version, node image for it, and the services around
it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from specdec.aws import calls, code, pages
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
    """EKS must offer the Kubernetes version. Extended support costs six times as much."""
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


def image(scope: Scope) -> Iterator[Finding]:
    """EKS publishes the recommended node image with the Neuron driver as an SSM parameter, by Kubernetes
    version.
    """
    version, release = scope.experiment.cluster.kubernetes_version, scope.experiment.cluster.ami_release
    yield judge_image(_image(scope, "recommended"), kubernetes=version, region=scope.region)
    if release is not None:
        name = f"amazon-eks-node-al2023-x86_64-neuron-{version}-v{release.rpartition('-')[2]}"
        yield judge_release(_image(scope, name), release=release, region=scope.region)


def _image(scope: Scope, which: str) -> str | None:
    """Id of a node image with the Neuron driver: the recommended one, or one by its name."""
    version = scope.experiment.cluster.kubernetes_version
    name = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/x86_64/neuron/{which}/image_id"
    with calls():
        try:
            return str(scope.clients("ssm").get_parameter(Name=name)["Parameter"]["Value"])
        except ClientError as error:
            if code(error) != "ParameterNotFound":
                raise
            return None


def judge_release(value: str | None, *, release: str, region: str) -> Finding:
    """Reads the id of the image of ``cluster.ami_release``; None where EKS publishes none under its name."""
    if value is None:
        return Finding(
            "node image",
            "warning",
            f"EKS publishes no Neuron image of release {release} in {region}, so the node groups would fail",
            "Set cluster.ami_release to one of github.com/awslabs/amazon-eks-ami/releases, or leave it out",
        )
    return Finding("node image", "ok", f"{value} is the Neuron image of release {release}")


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
