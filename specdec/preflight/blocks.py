"""Capacity Blocks for sale: of every type and in every region that the experiment could run on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import calls, code
from specdec.catalog.instances import INSTANCES
from specdec.catalog.offers import OFFERS
from specdec.errors import SpecdecError
from specdec.preflight.finding import Finding, Scope
from specdec.pricing.elsewhere import fit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from specdec.experiment.fields import Experiment

HOURS = 24
DAYS = 14
SHOWN = 5
"""Offers that are shown, the cheapest first."""

UNSOLD = ("Unsupported", "InvalidParameterValue", "UnsupportedOperation")
"""How EC2 says that it sells no blocks of a type in a region."""


class NoQuotaError(Exception):
    """The account is not allowed Capacity Blocks of this type, so EC2 shows none."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the experiment could run.

    Attributes:
        region: AWS region.
        experiment: the experiment as it would run there.
    """

    region: str
    experiment: Experiment

    @property
    def words(self) -> str:
        """Instance type and region."""
        return f"{self.experiment.capacity.instance_type} in {self.region}"


@dataclass(frozen=True, slots=True)
class Offer:
    """One Capacity Block for sale.

    Attributes:
        place: where it is.
        id: ``cb-...``.
        zone: availability zone.
        start: when it begins.
        hours: how long it lasts.
        fee: what it costs, in ``currency``.
        currency: ISO code.
    """

    place: Place
    id: str
    zone: str
    start: datetime
    hours: int
    fee: float
    currency: str


def blocks(scope: Scope) -> Iterator[Finding]:
    """Blocks of 24 hours that start in the next two weeks, for whoever has no capacity yet."""
    if scope.experiment.placement[scope.region].bought:
        return
    own, *others = places(scope)
    try:
        offers = _offers(scope, own)
    except NoQuotaError:
        quota = scope.experiment.instance.quota_blocks
        family = scope.experiment.instance.family
        yield Finding(
            "capacity blocks",
            "warning",
            f"the account's quota for {family} Capacity Blocks is 0, so none is shown",
            f"Service Quotas console > Amazon EC2 > {family} Capacity Blocks, or: aws service-quotas"
            f" request-service-quota-increase --service-code ec2 --quota-code {quota} --desired-value 1",
        )
        return
    missed: list[str] = []
    for place in others:
        try:
            offers.extend(_offers(scope, place))
        except (NoQuotaError, SpecdecError) as error:
            # A region that the account has not opted into answers nothing; the others still do.
            missed.append(f"{place.words} ({error})")
    yield from judge_blocks(offers, asked=[place.words for place in (own, *others)], missed=missed)


def places(scope: Scope) -> list[Place]:
    """Where the experiment could run: as it is in its region first, then, for the first region alone, in
    every region that offers its type, and on every other type that takes it.
    """
    experiment = scope.experiment
    candidates = [Place(scope.region, experiment)]
    if scope.region != experiment.regions[0]:
        return candidates
    for instance in INSTANCES.values():
        own = instance.type == experiment.capacity.instance_type
        moved = experiment if own else fit(experiment, instance, scope.region)[0]
        if moved is None or "capacity-block" not in instance.purchases:
            continue
        candidates.extend(
            Place(offer.region, moved)
            for offer in OFFERS.get(instance.type, ())
            if not (own and offer.region == scope.region)
        )
    return candidates


def _offers(scope: Scope, place: Place) -> list[Offer]:
    now = datetime.now(UTC)
    with calls():
        try:
            offerings: list[dict[str, Any]] = scope.clients(
                "ec2", region=place.region
            ).describe_capacity_block_offerings(
                InstanceType=place.experiment.capacity.instance_type,
                InstanceCount=place.experiment.nodes_needed,
                CapacityDurationHours=HOURS,
                StartDateRange=now,
                EndDateRange=now + timedelta(days=DAYS),
            )["CapacityBlockOfferings"]
        except ClientError as error:
            if code(error) == "CapacityBlockDescribeLimitExceeded":
                raise NoQuotaError("the account's quota for its Capacity Blocks is 0") from None
            if code(error) not in UNSOLD:
                raise
            offerings = []
    return [
        Offer(
            place=place,
            id=offer["CapacityBlockOfferingId"],
            zone=offer["AvailabilityZone"],
            start=offer["StartDate"],
            hours=offer.get("CapacityBlockDurationHours", HOURS),
            fee=float(offer["UpfrontFee"]),
            currency=offer.get("CurrencyCode", "USD"),
        )
        for offer in offerings
    ]


def judge_blocks(
    offers: Sequence[Offer], *, asked: Sequence[str], missed: Sequence[str]
) -> Iterator[Finding]:
    """Names the cheapest offers, each with the lines to put into the experiment file.

    Args:
        offers: of all places.
        asked: the places, in words.
        missed: those that gave no answer, in words.
    """
    for offer in sorted(offers, key=lambda offer: (offer.fee, offer.start))[:SHOWN]:
        yield Finding(
            "capacity blocks",
            "ok",
            f"for sale: {offer.place.words}, {offer.place.experiment.nodes_needed} x {offer.hours} h from"
            f" {offer.start:%Y-%m-%d %H:%M} UTC for {offer.fee:.2f} {offer.currency} in {offer.zone}"
            f" ({offer.id})",
            f"aws ec2 purchase-capacity-block --capacity-block-offering-id {offer.id}"
            f" --instance-platform Linux/UNIX --region {offer.place.region}\nand in the experiment file:\n"
            + "\n".join(lines(offer)),
        )
    if not offers:
        yield Finding(
            "capacity blocks",
            "warning",
            f"no Capacity Block of {HOURS} hours is for sale in the next {DAYS} days:"
            f" {', '.join(place for place in asked)}",
            "Check again later",
        )
    if missed:
        # Nothing of this deployment depends on them.
        yield Finding("capacity blocks", "ok", f"not checked elsewhere: {', '.join(missed)}")


def lines(offer: Offer) -> list[str]:
    """What an experiment file must say to run in a block."""
    capacity, serving = offer.place.experiment.capacity, offer.place.experiment.serving
    nodes = offer.place.experiment.nodes_needed
    return [
        f'regions = ["{offer.place.region}"]',
        "[capacity]",
        f'instance_type = "{capacity.instance_type}"',
        'purchase = "capacity-block"',
        f"desired_nodes = {nodes}",
        f"max_nodes = {nodes}",
        f"[placement.{offer.place.region}]",
        f'zone = "{offer.zone}"',
        'reservation_id = "cr-..." # what the purchase answers',
        "[serving]",
        f"devices = {serving.devices}",
        f"tensor_parallel_degree = {serving.tensor_parallel_degree}",
        f"logical_core_size = {serving.logical_core_size}",
    ]
