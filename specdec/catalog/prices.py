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
