"""What the experiment costs, with the price of its nodes asked of AWS."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from specdec.aws import DeniedError, calls, unexpected
from specdec.errors import NoAccessError, SpecdecError
from specdec.preflight.finding import Finding, Scope
from specdec.pricing.compiles import compiles
from specdec.pricing.items import PRICED_ON_DEMAND, items

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdec.deployed.clients import Clients


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


def compiled(scope: Scope) -> Iterator[Finding]:
    """Which loads run in the graph of a larger batch."""
    for plan in compiles(scope.experiment, scope.region):
        padded = plan.graphs == "one" and set(plan.cheapest) - set(plan.runs_in)
        yield Finding(
            "compiles",
            "warning" if padded else "ok",
            f"{plan.variant}: {plan.says}",
            "Deploy the loads that differ with their own max_num_seqs, or read them as a full batch's"
            if padded
            else None,
        )


def cost(scope: Scope) -> Iterator[Finding]:
    """What an hour of the deployed experiment costs, as far as AWS tells."""
    capacity = scope.experiment.capacity
    own = scope.experiment.cost.node_usd_per_hour is not None or capacity.purchase not in PRICED_ON_DEMAND
    kinds = (
        [capacity.system_instance_type] if own else [capacity.instance_type, capacity.system_instance_type]
    )
    prices: dict[str, float] = {}
    unanswered = list(kinds)
    refused = None
    try:
        for kind in kinds:
            price = asked(scope.clients, instance_type=kind, region=scope.region)
            prices |= {} if price is None else {kind: price}
            unanswered.remove(kind)
    except Exception as error:
        # Not being told a price is no reason to leave out all the others.
        refused = error if isinstance(error, SpecdecError) else unexpected(error)
        if refused is None or (isinstance(refused, NoAccessError) and not isinstance(refused, DeniedError)):
            raise
    table = items(scope.experiment, scope.region, scope.workload, today=scope.today, asked=prices)
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
