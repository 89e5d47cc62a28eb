"""Whether the mirrors hold what will be pulled from them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import calls, code, pages
from specdec.catalog.sources import (
    AWS_CLI_IMAGE,
    NEURON_CHART,
    NEURON_CHART_IMAGES,
    NEURON_CHART_VERSION,
    PYTHON_IMAGE,
)
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdec.experiment.fields import Experiment

_ECR = re.compile(r"^(?:oci://)?((\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?)/(.+)$")


def pulled(experiment: Experiment, region: str) -> dict[str, str]:
    """Everything that is pulled from a mirror: where it comes from in public to where it is pulled from."""
    network = experiment.network
    images = [AWS_CLI_IMAGE, PYTHON_IMAGE, experiment.stack.image]
    chart = f"{NEURON_CHART}:{NEURON_CHART_VERSION}"
    found: dict[str, str] = {}
    if not experiment.placement[region].cluster_has_neuron:
        images += NEURON_CHART_IMAGES[experiment.serving.allocation].values()
        found[chart] = f"{network.chart(NEURON_CHART, region)}:{NEURON_CHART_VERSION}"
    found |= {image: network.image(image, region) for image in images}
    return {public: mirror for public, mirror in found.items() if mirror != public}


def mirror(scope: Scope) -> Iterator[Finding]:
    """An image that a mirror lacks shows as a pod that never starts. ECR is asked; no other registry can be
    asked from here.
    """
    wanted = pulled(scope.experiment, scope.region)
    if not wanted:
        return
    missing, rules = 0, _cache_rules(scope)
    for public, place in wanted.items():
        parts = _ECR.match(place)
        if parts is None:
            missing += 1
            yield Finding(
                "mirror",
                "unknown",
                f"{place} is in a registry that cannot be asked from here",
                f"See that the nodes can pull it; its origin is {public}",
            )
            continue
        _, account, region, path = parts.groups()
        if region != scope.region:
            missing += 1
            yield Finding(
                "mirror",
                "blocker",
                f"{place} is in {region}, whose ECR has no endpoint in a VPC of {scope.region}",
                "Write {region} in network.image_prefix and network.neuron_chart",
            )
            continue
        finding = _look_up(scope, account, path, public, place, rules)
        if finding is not None:
            missing += finding.level == "blocker"
            yield finding
    if not missing:
        yield Finding("mirror", "ok", f"the mirror holds or fetches all {len(wanted)} images and charts")


def _cache_rules(scope: Scope) -> frozenset[str]:
    with calls():
        rules = pages(scope.clients("ecr"), "describe_pull_through_cache_rules", "pullThroughCacheRules")
    return frozenset(rule["ecrRepositoryPrefix"] for rule in rules)


def _look_up(
    scope: Scope, account: str, path: str, public: str, place: str, rules: frozenset[str]
) -> Finding | None:
    repository, wanted = split(path)
    first = ""
    with calls():
        try:
            scope.clients("ecr").describe_images(
                registryId=account, repositoryName=repository, imageIds=[wanted]
            )
        except ClientError as error:
            if code(error) not in ("RepositoryNotFoundException", "ImageNotFoundException"):
                raise
            if code(error) == "RepositoryNotFoundException":
                first = f"{making(place)} && "
        else:
            return None
    if account == scope.account and any(repository.startswith(f"{prefix}/") for prefix in rules):
        return None
    remedy = f"Copy it: {first}{copying(public, place)}"
    return Finding("mirror", "blocker", f"the mirror lacks {place}", remedy)


def copying(public: str, place: str) -> str:
    """The command that copies an image or chart to where it is pulled from; its digest stays the same."""
    source, target = public.removeprefix("oci://"), place.removeprefix("oci://")
    return f"crane copy {source} {target.partition('@')[0]}"


def making(place: str) -> str | None:
    """The command that makes the repository an image or chart is pulled from; None outside ECR."""
    parts = _ECR.match(place)
    if parts is None:
        return None
    return f"aws ecr create-repository --region {parts[3]} --repository-name {split(parts[4])[0]}"


def logging_in(place: str) -> str | None:
    """The command that lets crane push to the registry of an image or chart; None outside ECR."""
    parts = _ECR.match(place)
    if parts is None:
        return None
    password = f"aws ecr get-login-password --region {parts[3]}"
    return f"{password} | crane auth login --username AWS --password-stdin {parts[1]}"


def split(path: str) -> tuple[str, dict[str, Any]]:
    """Repository and image id, as ECR's API takes it, of what follows the registry in a reference. A digest
    tells more than a tag.
    """
    name, _, digest = path.partition("@")
    repository, _, tag = name.rpartition(":")
    return repository, {"imageDigest": digest} if digest else {"imageTag": tag}
