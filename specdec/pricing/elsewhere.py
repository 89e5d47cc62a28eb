"""The same experiment on every instance of the catalogue: where it could run, and what that would cost."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from specdec.catalog.chips import WITHOUT_RESERVATION
from specdec.catalog.instances import INSTANCES
from specdec.catalog.prices import known_price
from specdec.experiment.phases import nodes_for
from specdec.experiment.reading import mistakes_in
from specdec.experiment.sections import Cost
from specdec.pricing.items import CostItem, items
from specdec.pricing.predict import Prediction, Range, predict, run_hours

if TYPE_CHECKING:
    from specdec.catalog.chips import Instance
    from specdec.experiment.fields import Experiment
    from specdec.pricing.workload import Workload

SOME_BLOCK = "cr-0123456789abcdef0"
"""Stands for the block that would be bought."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The experiment on one instance type.

    Attributes:
        instance_type: EC2 instance type.
        own: whether it is the experiment's own.
        refused: why it cannot run there, or None.
        devices: devices per service; None where variants differ.
        tensor_parallel_degree: of the services; None where variants differ.
        nodes: accelerator nodes.
        node_usd_per_hour: of all accelerator nodes, US dollars; None where the price is not known.
        usd_per_hour: with everything else; None where a price is not known.
        block: whether the price is of a Capacity Block, which is paid whole.
        price: how the node's price is known, with region and date.
        hours: of the planned run, best and worst.
        usd: of the planned run, best and worst; None without a price.
        predictions: one for each variant.
    """

    instance_type: str
    own: bool
    refused: str | None
    devices: int | None = None
    tensor_parallel_degree: int | None = None
    nodes: int = 0
    node_usd_per_hour: float | None = None
    usd_per_hour: float | None = None
    block: bool = False
    price: str = ""
    hours: Range | None = None
    usd: Range | None = None
    predictions: tuple[Prediction, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


def candidates(experiment: Experiment, region: str, workload: Workload, *, today: date) -> list[Candidate]:
    """The experiment's own instance first, then every other one, each with the largest claim that lets all
    services share one node, or the smallest where none does.
    """
    own = _candidate(experiment, region, workload, today, own=True)
    others = [
        _elsewhere(experiment, instance, region, workload, today)
        for instance in INSTANCES.values()
        if instance.type != experiment.capacity.instance_type
    ]
    return [own, *others]


def _candidate(
    experiment: Experiment, region: str, workload: Workload, today: date, *, own: bool
) -> Candidate:
    needed = experiment.nodes_needed
    capacity = experiment.capacity.model_copy(
        update={"desired_nodes": needed, "max_nodes": max(needed, experiment.capacity.max_nodes)}
    )
    running = experiment.model_copy(update={"capacity": capacity})
    table: list[CostItem] = items(running, region, workload, today=today)
    known = [item.usd_per_hour for item in table]
    total = None if None in known else sum(usd for usd in known if usd is not None)
    predictions = predict(running, region)
    hours = run_hours(running, workload, predictions)
    settings = [running.settings(variant) for variant in running.variants]
    devices = {setting.devices for setting in settings}
    degrees = {setting.tensor_parallel_degree for setting in settings}
    node, seen = table[0], running.price(region)
    return Candidate(
        instance_type=capacity.instance_type,
        own=own,
        refused=None,
        devices=devices.pop() if len(devices) == 1 else None,
        tensor_parallel_degree=degrees.pop() if len(degrees) == 1 else None,
        nodes=needed,
        node_usd_per_hour=node.usd_per_hour,
        usd_per_hour=total,
        block=seen is not None and seen.purchase == "capacity-block",
        price=f"{node.source}{f' ({node.date})' if node.date else ''}",
        hours=hours,
        usd=None if total is None else (hours[0] * total, hours[1] * total),
        predictions=tuple(predictions),
    )


def _elsewhere(
    experiment: Experiment, instance: Instance, region: str, workload: Workload, today: date
) -> Candidate:
    moved, refused = fit(experiment, instance, region)
    if moved is None:
        return Candidate(instance.type, own=False, refused=refused)
    return _candidate(moved, region, workload, today, own=False)


def fit(experiment: Experiment, instance: Instance, region: str) -> tuple[Experiment | None, str]:
    """The experiment as it would run on another instance, or None and why it cannot: with the largest claim
    that lets all services share a node, else with the next that the experiment's checks allow.
    """
    at_once = 1 if experiment.sequential else len(experiment.variants)
    sharing = instance.devices // at_once
    shared = [size for size in reversed(instance.claim_sizes) if size <= sharing]
    sizes = [*shared, *(size for size in instance.claim_sizes if size > sharing)]
    refusals: list[str] = []
    for size in sizes:
        moved = moved_to(experiment, instance, size, region)
        mistakes = mistakes_in(moved)
        if not mistakes:
            return moved, ""
        refusals.append(f"{mistakes[0].field} {mistakes[0].problem}")
    return None, refusals[0]


def moved_to(experiment: Experiment, instance: Instance, devices: int, region: str) -> Experiment:
    """The experiment with one claim of ``devices`` for every service on another instance, at the highest
    tensor parallel degree that its cores and the target's heads allow. The region is left open.
    """
    size = instance.logical_core_sizes[0]
    heads = experiment.model(experiment.serving.target).attention_heads
    degree = instance.logical_cores(devices, size)
    while heads % degree:
        degree -= 1
    prices = [known_price(instance.type, purchase, region) for purchase in instance.purchases]
    seen = next((price for price in prices if price is not None), None)
    purchase = seen.purchase if seen is not None and seen.purchase in instance.purchases else "on-demand"
    variants = tuple(
        variant.model_copy(update={"devices": None, "tensor_parallel_degree": None})
        for variant in experiment.variants
    )
    serving = experiment.serving.model_copy(
        update={
            "devices": devices,
            "tensor_parallel_degree": degree,
            "logical_core_size": size,
            "allocation": experiment.serving.allocation if instance.dra else "device-plugin",
        }
    )
    nodes = nodes_for(serving, variants, experiment.benchmark, instance)
    capacity = experiment.capacity.model_copy(
        update={
            "instance_type": instance.type,
            "purchase": purchase,
            "desired_nodes": nodes,
            "max_nodes": nodes,
            "efa": False,
            "allow_unlisted_region": True,
        }
    )
    place = experiment.placement[region].model_copy(
        update={"reservation_id": None if purchase in WITHOUT_RESERVATION else SOME_BLOCK}
    )
    return experiment.model_copy(
        update={
            "capacity": capacity,
            "serving": serving,
            "variants": variants,
            "regions": (region,),
            "placement": {region: place},
            "cost": Cost(),
        }
    )
