"""Whether the accelerator nodes can be had: quota, offering, reservation, Capacity Blocks for sale."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import calls, code, pages
from specdec.deployed.stack import stack_status
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CONSOLE = (
    "Service Quotas console > Amazon EC2 > {quota}, or: aws service-quotas request-service-quota-increase"
    " --service-code ec2"
)


def quota(scope: Scope) -> Iterator[Finding]:
    """On-demand and reserved nodes count against a vCPU quota, spot nodes and Capacity Blocks against their
    own.
    """
    capacity, instance = scope.experiment.capacity, scope.experiment.instance
    if capacity.purchase != "capacity-block":
        spot = capacity.purchase == "spot"
        number = instance.quota_spot if spot else instance.quota_on_demand
        yield judge_quota(
            _quota(scope, number),
            needed=capacity.max_nodes * instance.vcpus,
            unit=f"vCPUs of {instance.family[:3]} {'spot ' if spot else ''}instances",
            quota=number,
            region=scope.region,
        )
    elif instance.quota_blocks is None:
        yield Finding(
            "quota",
            "warning",
            f"no quota of Capacity Blocks of {instance.type} is in the catalogue, so it was not looked at",
            "Look for it: Service Quotas console > Amazon EC2",
        )
    else:
        yield judge_quota(
            _quota(scope, instance.quota_blocks),
            needed=1,
            unit=f"{instance.family} Capacity Blocks",
            quota=instance.quota_blocks,
            region=scope.region,
        )


def _quota(scope: Scope, quota: str) -> float | None:
    client = scope.clients("service-quotas")
    for operation in (client.get_service_quota, client.get_aws_default_service_quota):
        with calls():
            try:
                return float(operation(ServiceCode="ec2", QuotaCode=quota)["Quota"]["Value"])
            except ClientError as error:
                if code(error) != "NoSuchResourceException":
                    raise
    return None


def judge_quota(value: float | None, *, needed: int, unit: str, quota: str, region: str) -> Finding:
    """Compares a quota with what the experiment needs at its largest."""
    remedy = (
        _CONSOLE.format(quota=quota) + f" --quota-code {quota} --desired-value {needed} --region {region}"
    )
    if value is None:
        return Finding("quota", "unknown", f"quota {quota} is not known in {region}", remedy)
    if value < needed:
        return Finding("quota", "blocker", f"{value:.0f} {unit} allowed, {needed} needed", remedy)
    return Finding(
        "quota",
        "ok",
        f"{value:.0f} {unit} allowed, {needed} needed (what other instances use of it is not counted)",
    )


def offering(scope: Scope) -> Iterator[Finding]:
    """The instance type must be offered in the zone. Offered is not available: only a launch shows that."""
    kind, zone = scope.experiment.capacity.instance_type, scope.experiment.placement[scope.region].zone
    with calls():
        answer = scope.clients("ec2").describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [kind]}]
        )
    yield judge_offering(
        [entry["Location"] for entry in answer["InstanceTypeOfferings"]],
        kind=kind,
        zone=zone,
        region=scope.region,
    )


def judge_offering(zones: Sequence[str], *, kind: str, zone: str, region: str) -> Finding:
    """Compares the zones that offer the type with the experiment's zone."""
    if not zones:
        return Finding(
            "offering",
            "blocker",
            f"{kind} is not offered in {region}",
            "Choose another region in the experiment file",
        )
    if zone not in zones:
        return Finding(
            "offering",
            "blocker",
            f"{kind} is not offered in {zone}, but in {', '.join(sorted(zones))}",
            f'Set placement.{region}.zone = "{min(zones)}"',
        )
    return Finding("offering", "ok", f"{kind} is offered in {zone}")


@dataclass(frozen=True, slots=True)
class Reservation:
    """A capacity reservation or Capacity Block as EC2 describes it.

    Attributes:
        id: ``cr-...``.
        state: active, scheduled, payment-pending, expired, cancelled, failed, ...
        instance_type: what it holds.
        zone: where.
        free: instances not yet taken.
        total: instances in it.
        block: whether it is a Capacity Block.
        start, end: when it begins and ends; None where open.
        own: instances taken by this experiment's own nodes.
    """

    id: str
    state: str
    instance_type: str
    zone: str
    free: int
    total: int
    block: bool
    start: datetime | None = None
    end: datetime | None = None
    own: int = 0


def guesses(scope: Scope) -> Iterator[Finding]:
    """What the catalogue only guesses of the instance type."""
    instance = scope.experiment.instance
    for words in instance.unverified:
        yield Finding(
            "catalogue",
            "warning",
            f"not verified of {instance.type}: {words}",
            "Look there first if a pod does not start: docs/on-a-node.md",
        )


def reservation(scope: Scope) -> Iterator[Finding]:
    """Reserved capacity must exist, match, be active or about to be, and have room."""
    capacity, place = scope.experiment.capacity, scope.experiment.placement[scope.region]
    if place.reservation_id is None:
        yield judge_on_demand(
            capacity.instance_type,
            nodes=capacity.desired_nodes,
            deployed=stack_status(scope.clients, scope.stack),
        )
        return
    if not place.bought:
        yield Finding(
            "reservation",
            "blocker",
            f"placement.{scope.region}.reservation_id is a placeholder: no capacity is bought",
            "Buy a Capacity Block, below, and put in its id",
        )
        return
    with calls():
        try:
            reservations: list[dict[str, Any]] = scope.clients("ec2").describe_capacity_reservations(
                CapacityReservationIds=[place.reservation_id]
            )["CapacityReservations"]
        except ClientError as error:
            if code(error) not in (
                "InvalidCapacityReservationId.NotFound",
                "InvalidCapacityReservationId.Malformed",
            ):
                raise
            reservations = []
    held = _reservation(reservations[0]) if reservations else None
    nodes = max(capacity.desired_nodes, scope.experiment.nodes_needed)
    if held is not None and held.free < nodes:
        held = dataclasses.replace(held, own=_own_instances(scope, held.id))
    yield from judge_reservation(
        held,
        wanted=place.reservation_id,
        instance_type=capacity.instance_type,
        zone=place.zone,
        nodes=nodes,
        block=capacity.purchase == "capacity-block",
    )


def judge_on_demand(kind: str, *, nodes: int, deployed: str | None) -> Finding:
    """Only the first deployment with nodes can be rolled back for want of capacity.

    Args:
        kind: instance type.
        nodes: how many the deployment starts.
        deployed: status of the stack, None where there is none.
    """
    if nodes == 0 or deployed is not None:
        return Finding(
            "reservation",
            "ok",
            f"{kind} on demand: nodes come if EC2 has them, and a stack without them stays as it is",
        )
    return Finding(
        "reservation",
        "warning",
        f"{kind} on demand: being offered is not being available, and a launch that finds no capacity rolls"
        " the stack back",
        "Deploy with capacity.desired_nodes = 0 and use `specdec nodes up`, or reserve capacity",
    )


def _own_instances(scope: Scope, reservation_id: str) -> int:
    """Instances of this stack that run in the reservation already, so that a second look after the deployment
    is no alarm.
    """
    filters = [
        {"Name": "capacity-reservation-id", "Values": [reservation_id]},
        {"Name": "tag:eks:cluster-name", "Values": [scope.stack]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    with calls():
        reservations = pages(scope.clients("ec2"), "describe_instances", "Reservations", Filters=filters)
    return sum(len(reservation["Instances"]) for reservation in reservations)


def _reservation(found: dict[str, Any]) -> Reservation:
    return Reservation(
        id=found["CapacityReservationId"],
        state=found.get("State", "unknown"),
        instance_type=found.get("InstanceType", ""),
        zone=found.get("AvailabilityZone", ""),
        free=found.get("AvailableInstanceCount", 0),
        total=found.get("TotalInstanceCount", 0),
        block=found.get("ReservationType", "default") == "capacity-block",
        start=found.get("StartDate"),
        end=found.get("EndDate"),
    )


def judge_reservation(
    found: Reservation | None, *, wanted: str, instance_type: str, zone: str, nodes: int, block: bool
) -> Iterator[Finding]:
    """Everything about a reservation that would make the node group fail or stay empty."""
    console = "EC2 console > Capacity Reservations"
    if found is None:
        yield Finding(
            "reservation",
            "blocker",
            f"{wanted} does not exist in this account and region",
            f"Correct reservation_id; see {console}",
        )
        return
    before = False
    if found.instance_type != instance_type:
        before = True
        yield Finding(
            "reservation",
            "blocker",
            f"{found.id} holds {found.instance_type}, not {instance_type}",
            f"Use another one; see {console}",
        )
    if found.zone != zone:
        before = True
        yield Finding(
            "reservation",
            "blocker",
            f"{found.id} is in {found.zone}, the experiment in {zone}",
            f'Set zone = "{found.zone}"',
        )
    if found.block != block:
        before = True
        purchase = "capacity-block" if found.block else "reservation"
        yield Finding(
            "reservation",
            "blocker",
            f"{found.id} is a {'Capacity Block' if found.block else 'plain reservation'}",
            f'Set capacity.purchase = "{purchase}"',
        )
    if found.state in ("scheduled", "payment-pending", "pending"):
        start = f" and starts {found.start:%Y-%m-%d %H:%M} UTC" if found.start else ""
        yield Finding(
            "reservation",
            "warning" if block else "blocker",
            f"{found.id} is {found.state}{start}",
            "Deploy now with capacity.desired_nodes = 0, and `specdec nodes up` once it is active",
        )
    elif found.state != "active":
        yield Finding(
            "reservation", "blocker", f"{found.id} is {found.state}", f"Use another one; see {console}"
        )
    elif found.free + found.own < nodes:
        yield Finding(
            "reservation",
            "blocker",
            f"{found.id} has {found.free} of {found.total} instances free, {nodes} needed",
            f"See what runs in it: {console}",
        )
    elif not before:
        end = f", ends {found.end:%Y-%m-%d %H:%M} UTC" if found.end else ""
        own = f", {found.own} held by this experiment" if found.own else ""
        yield Finding(
            "reservation",
            "ok",
            f"{found.id} is active with {found.free} of {found.total} instances free{own}{end}",
        )
