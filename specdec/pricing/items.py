"""The cost of an experiment while it is deployed, item by item, each price with its source and date."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from specdec.catalog import service_prices as list_price
from specdec.catalog import system_node
from specdec.catalog.kubernetes import SUPPORT
from specdec.experiment.endpoints import ZONES, endpoints_of
from specdec.metrics.objective import objective_of
from specdec.publish import series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specdec.experiment.fields import Experiment
    from specdec.pricing.workload import Workload

DASHBOARDS = 2
ALARMS = 7
"""Of one stack, and one alarm more for each variant, or for all that are served one after the other; a test
counts them in the template."""


@dataclass(frozen=True, slots=True)
class CostItem:
    """One line of an estimate.

    Attributes:
        name: what is paid for.
        count: how many.
        usd_per_hour: US dollars an hour for all of them; None where no price is known.
        source: where the price comes from.
        date: as of when.
        while_up: whether it comes and goes with the accelerator nodes.
    """

    name: str
    count: float
    usd_per_hour: float | None
    source: str
    date: str
    while_up: bool = False

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class NodeCost:
    """Price of one node, for the table."""

    usd_per_hour: float | None
    source: str
    date: str


PRICED_ON_DEMAND = ("on-demand", "reservation")
"""Ways to buy at AWS's on-demand price."""


def node_cost(experiment: Experiment, region: str, *, asked_usd_per_hour: float | None = None) -> NodeCost:
    """Price of an accelerator node: the experiment's own, else AWS's answer, else what the catalogue has
    seen.
    """
    own = experiment.cost.node_usd_per_hour is not None
    if asked_usd_per_hour is not None and not own and experiment.capacity.purchase in PRICED_ON_DEMAND:
        return _told(asked_usd_per_hour, region)
    price = experiment.price(region)
    if price is None:
        return NodeCost(None, "no price known; set cost.node_usd_per_hour", "")
    source = price.source if price.region is None else f"{price.purchase} in {price.region}: {price.source}"
    bought = experiment.capacity.purchase
    if price.region is not None and (price.purchase, price.region) != (bought, region):
        source = f"no price of {bought} in {region} known; taken from {source}"
    return NodeCost(price.usd_per_hour, source, price.date or "")


def _told(usd_per_hour: float, region: str) -> NodeCost:
    return NodeCost(usd_per_hour, f"AWS pricing API, on demand, {region}", "now")


def items(
    experiment: Experiment,
    region: str,
    workload: Workload,
    *,
    today: date,
    asked: Mapping[str, float] | None = None,
) -> list[CostItem]:
    """The cost table of one region.

    Args:
        experiment: a checked experiment.
        region: one of its regions.
        workload: what its benchmark sends, which decides how many metrics there are.
        today: decides whether the Kubernetes version is in extended support.
        asked: on-demand prices that AWS told, US dollars an hour, by instance type.
    """
    capacity, prices = experiment.capacity, asked or {}
    # A stack that starts without nodes is there for the time when it has them.
    wanted = capacity.desired_nodes or experiment.nodes_needed
    node = node_cost(experiment, region, asked_usd_per_hour=prices.get(capacity.instance_type))
    system = _system(capacity.system_instance_type, region, prices)

    def item(name: str, count: float, price: list_price.Price, *, while_up: bool = False) -> CostItem:
        return CostItem(name, count, count * price.usd_per_hour, price.source, price.date, while_up)

    def nodes(name: str, count: int, cost: NodeCost, *, while_up: bool = False) -> CostItem:
        usd = None if cost.usd_per_hour is None else count * cost.usd_per_hour
        return CostItem(name, count, usd, cost.source, cost.date, while_up)

    place = experiment.placement[region]
    system_nodes = system_node.nodes(experiment.benchmark.clients)
    network = (
        (
            item("NAT gateway (traffic apart)", 1, list_price.NAT_GATEWAY),
            item("public IPv4 address", 1, list_price.PUBLIC_ADDRESS),
        )
        if experiment.network.internet
        else (
            item(
                "VPC endpoints, per zone (traffic apart)",
                ZONES * len(endpoints_of(experiment)),
                list_price.ENDPOINT,
            ),
        )
    )
    control_plane = item(
        "EKS control plane", 1, SUPPORT[experiment.cluster.kubernetes_version].control_plane(today)
    )
    return [
        nodes(f"{capacity.instance_type} nodes, while up", wanted, node, while_up=True),
        item(
            "their root volumes, GB, while up",
            wanted * capacity.root_volume_gib,
            list_price.VOLUME,
            while_up=True,
        ),
        nodes(f"{capacity.system_instance_type} system node", system_nodes, system),
        *(() if place.cluster_name else (control_plane,)),
        *(() if place.vpc_id else network),
        item("system node's root volume, GB", system_nodes * system_node.VOLUME_GIB, list_price.VOLUME),
        item("bucket, GB", kept_gigabytes(experiment), list_price.STORAGE),
        *(() if place.kms_key_arn else (item("KMS key", 1, list_price.KEY),)),
        item(
            "custom metrics",
            series.emitted(
                variants=len(experiment.variants),
                test_cases=workload.test_cases,
                llmperf_cases=workload.llmperf_cases,
                objective=objective_of(experiment.resolved()) is not None,
                loads=len(experiment.benchmark.loads) if len(experiment.benchmark.loads) > 1 else 0,
            ),
            list_price.METRIC,
        ),
        item("dashboards", DASHBOARDS, list_price.DASHBOARD),
        item("alarms", ALARMS + (1 if experiment.sequential else len(experiment.variants)), list_price.ALARM),
    ]


def _system(instance_type: str, region: str, told: Mapping[str, float]) -> NodeCost:
    if instance_type in told:
        return _told(told[instance_type], region)
    listed = list_price.INSTANCES.get(instance_type)
    return (
        NodeCost(listed.usd, listed.source, listed.date) if listed else NodeCost(None, "no price known", "")
    )


def kept_gigabytes(experiment: Experiment) -> float:
    """Weights in the bucket, and one sharded copy of them per variant as its artifact. GB of 10^9 bytes."""
    weights = sum(experiment.model(model).weight_bytes() for model in experiment.loaded_models)
    artifacts = sum(
        experiment.model(model).weight_bytes()
        for variant in experiment.variants
        for model in experiment.models_of(variant)
    )
    return (weights + artifacts) / 1e9
