"""Prices of accelerator nodes, each with source and date. A price is an observation, not an offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Purchase = Literal["on-demand", "capacity-block", "spot", "experiment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrice:
    """What one node costs for an hour.

    Attributes:
        instance_type: EC2 instance type.
        usd_per_hour: US dollars.
        purchase: how it is bought; ``experiment`` for a price the user gave.
        region: where it was seen; None for a price the user gave.
        source: where the figure was read.
        date: when it was seen, ISO 8601, as exact as known.
        disputed: why the figure is in doubt, or None. A disputed price is shown and never used by itself.
    """

    instance_type: str
    usd_per_hour: float
    purchase: Purchase
    region: str | None
    source: str
    date: str | None
    disputed: str | None = None


_CAPACITY_BLOCKS = "Capacity Block offer, noted by a third party"

PRICES = (
    NodePrice(
        instance_type="trn2.48xlarge",
        usd_per_hour=36.46,
        purchase="capacity-block",
        region="us-east-2",
        source=f"{_CAPACITY_BLOCKS}: 474 USD for 13 hours",
        date="2026-10",
    ),
    NodePrice(
        instance_type="trn2.48xlarge",
        usd_per_hour=35.76,
        purchase="capacity-block",
        region="ap-south-2",
        source=f"{_CAPACITY_BLOCKS}: 858.26 USD for 24 hours (689.59 USD for 19 hours, 36.29 an hour)",
        date="2026-10-03",
    ),
    NodePrice(
        instance_type="trn2.48xlarge",
        usd_per_hour=14.5556,
        purchase="on-demand",
        region="us-east-2",
        source="sparecores.com, noted by a third party",
        date="2026",
        disputed=(
            "another note finds no on-demand record of this type in the pricing API, and Capacity Blocks cost"
            " 2.5 times as much"
        ),
    ),
    NodePrice(
        instance_type="trn2.48xlarge",
        usd_per_hour=8.60,
        purchase="spot",
        region="us-east-2",
        source="spot price history of us-east-2c, noted by a third party",
        date="2026-03",
    ),
    NodePrice(
        instance_type="trn2.3xlarge",
        usd_per_hour=2.235,
        purchase="capacity-block",
        region="ap-southeast-4",
        source=(
            "AWS's Capacity Block page, kept by koyakimu/ec2-capacity-blocks-for-ml-pricing-json @23bac71;"
            " 8.5 hours bought for 19.03 USD on 2026-10-07 (foxl-ai/kiln)"
        ),
        date="2026-01-31",
    ),
    NodePrice(
        instance_type="trn2.3xlarge",
        usd_per_hour=2.235,
        purchase="capacity-block",
        region="sa-east-1",
        source=f"{_CAPACITY_BLOCKS}: 53.64 USD for 24 hours",
        date="2026-08-05",
    ),
    NodePrice(
        instance_type="trn2.3xlarge",
        usd_per_hour=2.27,
        purchase="spot",
        region="ap-southeast-4",
        source="spot price, noted by foxl-ai/kiln @a04d1fa; all 67 requests were refused",
        date="2026-10-03",
    ),
    NodePrice(
        instance_type="trn1.32xlarge",
        usd_per_hour=21.50,
        purchase="on-demand",
        region="us-east-1",
        source="list price, noted by foxl-ai/kiln @a04d1fa",
        date="2026-10-03",
    ),
    NodePrice(
        instance_type="trn1.32xlarge",
        usd_per_hour=9.532,
        purchase="capacity-block",
        region="us-east-1",
        source="Capacity Block rate, noted by foxl-ai/kiln @a04d1fa; region not said",
        date="2026-10-03",
    ),
    NodePrice(
        instance_type="inf2.48xlarge",
        usd_per_hour=12.98,
        purchase="on-demand",
        region="us-east-1",
        source="list price, noted by foxl-ai/kiln @a04d1fa",
        date="2026-10-03",
    ),
)
"""What has been seen of prices. There is no undisputed on-demand price of a trn2 among them, and none is made
up."""


def known_price(instance_type: str, purchase: str, region: str | None = None) -> NodePrice | None:
    """The price to use when the experiment names none, or None if nothing usable is known.

    Undisputed prices of the same purchase come first, and of these the region's own. Where there are none, as
    for on-demand, the Capacity Block price stands in; a spot price only for spot. Reports show with every
    price how, where and when it was seen.
    """
    usable = [
        price
        for price in PRICES
        if price.instance_type == instance_type
        and price.disputed is None
        and (price.purchase != "spot" or purchase == "spot")
    ]
    usable.sort(key=lambda price: (price.purchase != purchase, price.region != region))
    return usable[0] if usable else None


def price_for(
    instance_type: str, purchase: str, region: str | None, *, own: float | None = None
) -> NodePrice | None:
    """The price of an accelerator node of an experiment: its own where it names one, else what is known.

    Args:
        instance_type: EC2 instance type.
        purchase: how it is bought.
        region: where.
        own: the experiment's ``cost.node_usd_per_hour``.
    """
    if own is None:
        return known_price(instance_type, purchase, region)
    return NodePrice(
        instance_type=instance_type,
        usd_per_hour=own,
        purchase="experiment",
        region=None,
        source="cost.node_usd_per_hour of the experiment",
        date=None,
    )
