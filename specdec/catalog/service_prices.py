"""List prices of the services around the accelerator nodes, US dollars, us-east-2.

They are small beside a trn2 node, differ little between regions, and are there so that nothing is left out of an estimate.
``specdec check`` asks the pricing API for what it can tell.
"""

from __future__ import annotations

from dataclasses import dataclass

HOURS_PER_MONTH = 730.0
"""The month that AWS's price pages reckon with."""


@dataclass(frozen=True, slots=True)
class Price:
    """A list price.

    Attributes:
        usd: US dollars per unit.
        unit: what is counted, e.g. ``hour`` or ``GB-month``.
        source: where it was read, or that it was not re-read.
        date: when.
    """

    usd: float
    unit: str
    source: str
    date: str

    @property
    def usd_per_hour(self) -> float:
        """The price for an hour of one unit. A month has 730 hours."""
        return self.usd / HOURS_PER_MONTH if self.unit.endswith("month") else self.usd


_LIST = "service's public price page, by general knowledge, not re-read"

CONTROL_PLANE = Price(0.10, "hour", "AWS containers blog, EKS extended support pricing: standard support", "2024-04-01")
CONTROL_PLANE_EXTENDED = Price(0.60, "hour", "AWS containers blog, EKS extended support pricing: extended support", "2024-04-01")
NAT_GATEWAY = Price(0.045, "hour", _LIST, "2026-11")
NAT_GIGABYTE = Price(0.045, "GB", _LIST, "2026-11")
PUBLIC_ADDRESS = Price(0.005, "hour", _LIST, "2026-11")
KEY = Price(1.0, "key-month", _LIST, "2026-11")
METRIC = Price(0.30, "metric-month", _LIST + " (first 10,000 metrics)", "2026-11")
DASHBOARD = Price(3.0, "dashboard-month", _LIST, "2026-11")
ALARM = Price(0.10, "alarm-month", _LIST, "2026-11")
STORAGE = Price(0.023, "GB-month", _LIST + " (S3 Standard, first 50 TB)", "2026-11")
VOLUME = Price(0.08, "GB-month", _LIST + " (EBS gp3)", "2026-11")
INSTANCES = {"m7i.2xlarge": Price(0.4032, "hour", _LIST + " (on demand)", "2026-11")}
