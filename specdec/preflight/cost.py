"""What the experiment costs, item by item: the same table offline and, with the node's price asked of AWS, in
the check.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec.aws import DeniedError, calls, unexpected
from specdec.catalog import service_prices as list_price
from specdec.catalog import system_node
from specdec.errors import NoAccessError, SpecdecError
from specdec.metrics import ALL
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment

DASHBOARDS = 2
ALARMS = 4
"""Of one stack, and one alarm more for each variant; a test counts them in the template."""


@dataclass(frozen=True, slots=True)
class CostItem:
    """One line of an estimate.

    Attributes:
        name: what is paid for.
        count: how many.
        usd_per_hour: US dollars an hour for all of them; None where no price is known.
        source: where the price comes from.
        date: as of when.
    """

    name: str
    count: float
    usd_per_hour: float | None
    source: str
    date: str

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class NodeCost:
    """Price of one accelerator node, for the table."""

    usd_per_hour: float | None
    source: str
    date: str


def items(
    experiment: Experiment,
    *,
    node: NodeCost,
    system: NodeCost | None = None,
    test_cases: int,
    kept_gigabytes: float,
) -> list[CostItem]:
    """The table.

    Args:
        experiment: the experiment.
        node: price of an accelerator node.
        system: price of a system node; the catalogue's by default.
        test_cases: test cases of the prompt set, which decide how many metrics there are.
        kept_gigabytes: weights and artifacts in the bucket.
    """
    capacity = experiment.capacity
    series = len(ALL) * len(experiment.variants) * test_cases

    def item(name: str, count: float, price: list_price.Price) -> CostItem:
        return CostItem(name, count, count * price.usd_per_hour, price.source, price.date)

    listed = list_price.INSTANCES.get(capacity.system_instance_type)
    fallback = NodeCost(
        listed.usd if listed else None,
        listed.source if listed else "no price known",
        listed.date if listed else "",
    )
    system = system or fallback
    return [
        CostItem(
            f"{capacity.instance_type} nodes",
            capacity.desired_nodes,
            None if node.usd_per_hour is None else capacity.desired_nodes * node.usd_per_hour,
            node.source,
            node.date,
        ),
        CostItem(
            f"{capacity.system_instance_type} system node",
            system_node.NODES,
            None if system.usd_per_hour is None else system_node.NODES * system.usd_per_hour,
            system.source,
            system.date,
        ),
        item("EKS control plane", 1, list_price.CONTROL_PLANE),
        item("NAT gateway (traffic apart)", 1, list_price.NAT_GATEWAY),
        item("public IPv4 address", 1, list_price.PUBLIC_ADDRESS),
        item(
            "root volumes, GB",
            capacity.desired_nodes * capacity.root_volume_gib + system_node.NODES * system_node.VOLUME_GIB,
            list_price.VOLUME,
        ),
        item("bucket, GB", kept_gigabytes, list_price.STORAGE),
        item("KMS key", 1, list_price.KEY),
        item("custom metrics", series, list_price.METRIC),
        item("dashboards", DASHBOARDS, list_price.DASHBOARD),
        item("alarms", ALARMS + len(experiment.variants), list_price.ALARM),
    ]


def kept_gigabytes(experiment: Experiment) -> float:
    """Weights in the bucket, and one sharded copy of them per variant as its artifact. GB of 10^9 bytes."""
    weights = sum(experiment.model(model).weight_bytes() for model in experiment.loaded_models)
    artifacts = sum(
        experiment.model(model).weight_bytes()
        for variant in experiment.variants
        for model in experiment.models_of(variant)
    )
    return (weights + artifacts) / 1e9


def asked(clients: Clients, *, instance_type: str, region: str) -> float | None:
    """On-demand list price of an instance type in a region, US dollars an hour, from the pricing API; None
    where it has none.

    Raises:
        NoAccessError: the caller may not ask.
    """
    wanted = {
        "instanceType": instance_type,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    # The pricing API answers for all regions and lives in a few only.
    with calls():
        products = clients("pricing", region="us-east-1").get_products(
            ServiceCode="AmazonEC2", Filters=filters
        )["PriceList"]
    return price_in(products)


def price_in(products: list[str]) -> float | None:
    """The hourly on-demand price in an answer of the pricing API: a list of JSON documents, one a product."""
    for text in products:
        product: dict[str, Any] = json.loads(text)
        for term in product.get("terms", {}).get("OnDemand", {}).values():
            for dimension in term["priceDimensions"].values():
                price = float(dimension["pricePerUnit"].get("USD", 0))
                if price > 0:
                    return price
    return None


def cost(scope: Scope) -> Iterator[Finding]:
    """What an hour of the deployed experiment costs, as far as AWS tells."""
    from specdec.preflight.estimate import estimate

    capacity = scope.experiment.capacity
    own = scope.experiment.cost.node_usd_per_hour is not None or capacity.purchase == "capacity-block"
    kinds = (
        [capacity.system_instance_type] if own else [capacity.instance_type, capacity.system_instance_type]
    )
    told: dict[str, float] = {}
    unanswered = list(kinds)
    refused = None
    try:
        for kind in kinds:
            price = asked(scope.clients, instance_type=kind, region=scope.region)
            told |= {} if price is None else {kind: price}
            unanswered.remove(kind)
    except Exception as error:
        # Not being told a price is no reason to leave out all the others.
        refused = error if isinstance(error, SpecdecError) else unexpected(error)
        if refused is None or (isinstance(refused, NoAccessError) and not isinstance(refused, DeniedError)):
            raise
    table = estimate(scope.experiment, scope.region, asked=told)
    for entry in table:
        if entry.usd_per_hour is not None:
            dated = f" ({entry.date})" if entry.date else ""
            yield Finding(
                "cost",
                "ok",
                f"{entry.name} ({entry.count:.0f}): {entry.usd_per_hour:.3f} USD an hour;"
                f" {entry.source}{dated}",
            )
    known = sum(entry.usd_per_hour for entry in table if entry.usd_per_hour is not None)
    unknown = [entry.name for entry in table if entry.usd_per_hour is None]
    if unknown:
        yield Finding(
            "cost",
            "warning",
            f"{known:.2f} USD an hour in all without {', '.join(unknown)}, whose price is not known",
            "Set cost.node_usd_per_hour",
        )
    else:
        yield Finding(
            "cost",
            "ok",
            f"{known:.2f} USD an hour in all, {known * scope.hours:.2f} USD for {scope.hours:g} hours",
        )
    if refused is not None:
        denied = refused.action if isinstance(refused, DeniedError) else None
        yield Finding(
            "cost",
            "unknown",
            f"today's price of {' and '.join(unanswered)} not looked at: {refused}",
            refused.remedy,
            denied,
        )
