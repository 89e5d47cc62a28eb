"""Cross-checks of what the stack is made from: whatever AWS would otherwise refuse an hour into a
deployment.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from specdec.catalog.addons import ADDONS
from specdec.catalog.instances import INSTANCES
from specdec.catalog.regions import WITHOUT_BUDGETS, zones_of
from specdec.errors import Mistake
from specdec.experiment.registry import check
from specdec.experiment.sections import resource_id

if TYPE_CHECKING:
    from specdec.experiment.fields import Account, Capacity, Cluster, Guards, Placement, Serving, Variant

OWN_TAGS = ("experiment", "owner", "variants")
"""Tags that follow from the experiment itself."""

_MAX_PUBLIC_CIDRS = 40
"""Per cluster, EKS service quotas."""

_TAG = re.compile(r"[\w\s.:/=+\-@]*")
_SUBNET = re.compile(resource_id("subnet"))
_EMAIL = re.compile(r"[^@\s:]+@[^@\s:]+\.[^@\s:]+")
_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}")
_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+")


@check
def _addresses(cluster: Cluster) -> Iterator[Mistake]:
    try:
        network = ipaddress.IPv4Network(cluster.vpc_cidr)
    except ValueError as error:
        yield Mistake(
            "cluster.vpc_cidr",
            cluster.vpc_cidr,
            f"is not an address range: {error}",
            'Use one like "10.42.0.0/16"',
        )
    else:
        if not network.is_private or not 16 <= network.prefixlen <= 22:
            yield Mistake(
                "cluster.vpc_cidr",
                cluster.vpc_cidr,
                "is not a private range of /16 to /22",
                "Use a private one; each pod takes an address, and the accelerator node alone may run 100"
                " pods",
            )
    for index, text in enumerate(cluster.public_access_cidrs):
        field = f"cluster.public_access_cidrs[{index}]"
        try:
            network = ipaddress.IPv4Network(text)
        except ValueError as error:
            yield Mistake(
                field,
                text,
                f"is not an IPv4 address range: {error}",
                'Use your own address, like "203.0.113.7/32"',
            )
            continue
        if network.prefixlen < 8:
            yield Mistake(
                field,
                text,
                "opens the API endpoint to the internet at large",
                "Name the ranges that need it; leave it empty for none",
            )
        elif any(network.overlaps(private) for private in _PRIVATE):
            yield Mistake(
                field,
                text,
                "is a private range, which EKS refuses here",
                "Use the address that the internet sees",
            )
    if len(cluster.public_access_cidrs) > _MAX_PUBLIC_CIDRS:
        yield Mistake(
            "cluster.public_access_cidrs",
            len(cluster.public_access_cidrs),
            f"are more ranges than the {_MAX_PUBLIC_CIDRS} EKS allows",
            "Join ranges",
        )


_PRIVATE = tuple(
    map(
        ipaddress.IPv4Network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8"),
    )
)


@check
def _principals(cluster: Cluster) -> Iterator[Mistake]:
    lists = ("admin_principal_arns", "viewer_principal_arns")
    places = [
        (f"cluster.{name}[{index}]", arn)
        for name in lists
        for index, arn in enumerate(getattr(cluster, name))
    ]
    for place, (field, arn) in enumerate(places):
        if not _PRINCIPAL.fullmatch(arn):
            yield Mistake(
                field,
                arn,
                "is not the ARN of an IAM role or user",
                "Use one like arn:aws:iam::111122223333:role/Admin; for an assumed role, that of the role"
                " itself",
            )
        elif arn in [earlier for _, earlier in places[:place]]:
            yield Mistake(field, arn, "is named twice, and a principal has one access entry", "Name it once")


@check
def _addon_versions(cluster: Cluster) -> Iterator[Mistake]:
    for name, version in cluster.addon_versions.items():
        if name not in ADDONS:
            yield Mistake(
                f"cluster.addon_versions.{name}",
                version,
                "is not an add-on of the stack",
                f"Use one of {', '.join(sorted(ADDONS))}",
            )
        elif not re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", version):
            yield Mistake(
                f"cluster.addon_versions.{name}",
                version,
                "is not an add-on version",
                f"Use one that `aws eks describe-addon-versions --addon-name {name}` prints, like"
                " v1.2.3-eksbuild.1",
            )
        elif ADDONS[name].below_floor(version):
            yield Mistake(
                f"cluster.addon_versions.{name}",
                version,
                f"is older than the settings of the stack: {ADDONS[name].floor_source}",
                f"Use {ADDONS[name].versions[cluster.kubernetes_version]}, or leave it out",
            )


@check
def _ami_release(cluster: Cluster) -> Iterator[Mistake]:
    release = cluster.ami_release
    if release is not None and not release.startswith(f"{cluster.kubernetes_version}."):
        yield Mistake(
            "cluster.ami_release",
            release,
            f"is not a release for Kubernetes {cluster.kubernetes_version}",
            "Use one that starts with the version, like"
            f" {cluster.kubernetes_version}.8-20260917, of github.com/awslabs/amazon-eks-ami/releases",
        )


@check
def _zones(regions: tuple[str, ...], placement: dict[str, Placement]) -> Iterator[Mistake]:
    for region in dict.fromkeys(regions):
        place = placement.get(region)
        if place is None:
            continue
        if place.vpc_id is not None or place.subnets:
            yield from _existing_network(region, place)
            continue
        field, zones = f"placement.{region}.zones", place.zones or zones_of(region)
        for zone in place.zones:
            if not re.fullmatch(re.escape(region) + "[a-z]", zone):
                yield Mistake(field, zone, f"is not a zone of {region}", f"Use zones like {region}a")
        if len(set(zones)) < len(zones):
            yield Mistake(field, list(zones), "names a zone twice", "Name each once")
        if not zones:
            example = f'zones = ["{region}a", "{region}b"]'
            yield Mistake(
                field,
                None,
                "is missing, and the catalogue does not know the zones of the region",
                f"List them, as `aws ec2 describe-availability-zones --region {region}` does: {example}",
            )
        elif len(zones) < 2:
            yield Mistake(field, list(zones), "is one zone; the control plane needs two", "Add another")
        if zones and place.zone not in zones and place.zone.startswith(region):
            yield Mistake(
                f"placement.{region}.zone",
                place.zone,
                f"is not among the zones of the network: {', '.join(zones)}",
                f"Use one of these, or name all in {field}; to a stack that exists only append",
            )


@check
def _region_names(regions: tuple[str, ...]) -> Iterator[Mistake]:
    for region in regions:
        if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", region):
            yield Mistake("regions", region, "is not the name of an AWS region", "Use one like us-east-2")


@check
def _device_groups(serving: Serving, capacity: Capacity) -> Iterator[Mistake]:
    if serving.neighbours == "devicegroup" and not capacity.efa:
        yield Mistake(
            "serving.neighbours",
            serving.neighbours,
            "is an attribute that the driver sets on nodes with EFA only, so no pod would ever be placed",
            'Set capacity.efa = true, or use "topology"',
        )


@check
def _efa_cards(capacity: Capacity) -> Iterator[Mistake]:
    instance = INSTANCES.get(capacity.instance_type)
    if capacity.efa and instance is not None and instance.efa_cards == 0:
        yield Mistake(
            "capacity.efa", True, f"asks for EFA, which {instance.type} does not have", "Set it to false"
        )


@check
def _tag_rules(
    owner: str, tags: dict[str, str], account: Account, variants: tuple[Variant, ...]
) -> Iterator[Mistake]:
    names = " ".join(variant.name for variant in variants)
    keyed = [("tags", key, value) for key, value in tags.items()]
    keyed += [("account.tags", key, value) for key, value in account.tags.items()]
    own = {"owner": owner, "variants": names}
    for field, value in {**own, **{f"{table}.{key}": value for table, key, value in keyed}}.items():
        if len(value) > 256 or not _TAG.fullmatch(value):
            yield Mistake(
                field,
                value,
                "cannot be the value of a tag",
                "Use at most 256 letters, digits, spaces and _ . : / = + - @",
            )
    for table, key, value in keyed:
        if key in OWN_TAGS or key.lower().startswith(("aws:", "kubernetes.io/", "eks:")):
            yield Mistake(f"{table}.{key}", value, "has a key that is taken", "Use another key")
        elif table == "tags" and key in account.tags:
            yield Mistake(f"tags.{key}", value, "is in account.tags too", "Remove one of the two")
        elif not 0 < len(key) <= 128 or not _TAG.fullmatch(key):
            yield Mistake(
                f"{table}.{key}",
                value,
                "has a key that is not allowed",
                "Use at most 128 letters, digits and _ . : / = + - @",
            )
    if len(keyed) > 30:
        yield Mistake(
            "tags", len(keyed), "are more than a resource can have besides our own", "Use at most 30"
        )


def _existing_network(region: str, place: Placement) -> Iterator[Mistake]:
    start, zones = f"placement.{region}", list(place.subnets)
    if place.vpc_id is None:
        yield Mistake(
            f"{start}.vpc_id", None, "is missing, and subnets need it", "Name their VPC, or remove subnets"
        )
    if place.zones:
        yield Mistake(
            f"{start}.zones",
            list(place.zones),
            "has no effect together with vpc_id",
            "Remove it; subnets name the zones",
        )
    for zone, subnet in place.subnets.items():
        if not zone.startswith(region) or len(zone) != len(region) + 1:
            yield Mistake(f"{start}.subnets", zone, f"is not a zone of {region}", f"Use zones like {region}a")
        if not _SUBNET.fullmatch(subnet):
            yield Mistake(
                f"{start}.subnets.{zone}",
                subnet,
                "is not the id of a subnet",
                "Use one like subnet-0a1b2c3d4e5f67890: 17 hexadecimal digits, or 8",
            )
    if len(set(place.subnets.values())) < len(zones):
        yield Mistake(f"{start}.subnets", place.subnets, "names a subnet twice", "A subnet is in one zone")
    if len(zones) < 2:
        yield Mistake(
            f"{start}.subnets",
            place.subnets,
            "has fewer than two zones, and the control plane needs two",
            f'Add private subnets: subnets = {{ {region}a = "subnet-...", {region}b = "subnet-..." }}',
        )
    elif place.zone not in zones:
        yield Mistake(
            f"{start}.zone", place.zone, f"has no subnet; there are some in {', '.join(zones)}", "Add one"
        )


@check
def _one_account(account: Account, placement: dict[str, Placement]) -> Iterator[Mistake]:
    arns = {
        "account.permissions_boundary": account.permissions_boundary,
        "account.deploy_role_arn": account.deploy_role_arn,
        "account.execution_role_arn": account.execution_role_arn,
        **{f"placement.{region}.kms_key_arn": place.kms_key_arn for region, place in placement.items()},
    }
    for field, arn in arns.items():
        owner = arn.split(":")[4] if arn else "aws"
        if account.id is not None and owner not in (account.id, "aws"):
            yield Mistake(
                field, arn, f"is in account {owner}, and account.id is {account.id}", "Correct one of the two"
            )
    for region, place in placement.items():
        if place.kms_key_arn is not None and place.kms_key_arn.split(":")[3] != region:
            yield Mistake(
                f"placement.{region}.kms_key_arn",
                place.kms_key_arn,
                f"is a key of another region than {region}",
                "Use a key of this region: KMS keys serve their own region only",
            )


@check
def _guard_pairs(guards: Guards) -> Iterator[Mistake]:
    if guards.monthly_budget_usd is not None and guards.notify is None:
        yield Mistake(
            "guards.monthly_budget_usd",
            guards.monthly_budget_usd,
            "notifies nobody without guards.notify",
            "Set notify too, or remove it",
        )
    if guards.notify is not None and not (_EMAIL.fullmatch(guards.notify) or _TOPIC.fullmatch(guards.notify)):
        yield Mistake(
            "guards.notify",
            guards.notify,
            "is neither an e-mail address nor the ARN of an SNS topic",
            'Use one like "team@example.com" or "arn:aws:sns:us-east-2:111122223333:alarms"',
        )
    if guards.scale_down_at is not None:
        try:
            datetime.fromisoformat(guards.scale_down_at)
        except ValueError as error:
            yield Mistake(
                "guards.scale_down_at",
                guards.scale_down_at,
                f"is not a time: {error}",
                "Use one like 2026-12-24T18:00:00, in UTC",
            )


def past_mistakes(guards: Guards, now: datetime) -> Iterator[Mistake]:
    """A scale-down that would never come. ``now`` is in UTC.

    This is a check of a deployment, which would be unguarded, and not of the file, which stays valid after
    that time.
    """
    at = guards.scale_down_at
    if at is not None and datetime.fromisoformat(at).replace(tzinfo=UTC) <= now:
        yield Mistake(
            "guards.scale_down_at",
            at,
            f"is in the past: it is now {now:%Y-%m-%dT%H:%M:%S} UTC",
            "Set a time in the future, or remove it",
        )


@check
def _budget_regions(regions: tuple[str, ...], guards: Guards) -> Iterator[Mistake]:
    without = [region for region in regions if region in WITHOUT_BUDGETS]
    if guards.monthly_budget_usd is not None and without:
        yield Mistake(
            "guards.monthly_budget_usd",
            guards.monthly_budget_usd,
            f"is not possible: CloudFormation cannot create budgets in {', '.join(without)}",
            "Remove it and make the budget in the console, where it is of the account; the scale_down guards"
            " work everywhere",
        )


@check
def _topic_regions(regions: tuple[str, ...], guards: Guards) -> Iterator[Mistake]:
    """An alarm calls a topic of its own region only."""
    if guards.notify is None or not _TOPIC.fullmatch(guards.notify):
        return
    region = guards.notify.split(":")[3]
    for other in regions:
        if other != region:
            yield Mistake(
                "guards.notify",
                guards.notify,
                f"is a topic of {region}, and alarms of {other} cannot call it",
                "Use an e-mail address, or an experiment file for each region",
            )
