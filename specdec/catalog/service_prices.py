"""List prices of the services around the accelerator nodes, US dollars, us-east-2.

They are small beside a trn2 node, differ little between regions, and are there so that nothing is left out of
an estimate. ``specdec check`` asks the pricing API for the price of the system node instead, and of the
accelerator nodes unless the experiment names its own or buys a Capacity Block.
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
        source: where it was read, and for which region if not for us-east-2; or that nobody has looked it up.
        date: of the source, or when it was read where it bears none.
    """

    usd: float
    unit: str
    source: str
    date: str

    @property
    def usd_per_hour(self) -> float:
        """The price for an hour of one unit. A month has 730 hours."""
        return self.usd / HOURS_PER_MONTH if self.unit.endswith("month") else self.usd


_NAT = "cloudburn.io, AWS NAT gateway pricing"
_CONTROL_PLANE = "AWS containers blog, EKS extended support pricing"

CONTROL_PLANE = Price(0.10, "hour", f"{_CONTROL_PLANE}: standard support", "2024-04-01")
CONTROL_PLANE_EXTENDED = Price(0.60, "hour", f"{_CONTROL_PLANE}: extended support", "2024-04-01")
NAT_GATEWAY = Price(0.045, "hour", _NAT, "2026-02-24")
ENDPOINT = Price(
    0.01,
    "hour",
    "general knowledge, not looked up: see aws.amazon.com/privatelink/pricing, per endpoint and zone",
    "2026-11",
)
PUBLIC_ADDRESS = Price(0.005, "hour", _NAT, "2026-02-24")
KEY = Price(1.0, "key-month", "AWS KMS price page; cloudburn.io, AWS KMS pricing", "2026-03-14")
METRIC = Price(0.30, "metric-month", "signoz.io, CloudWatch pricing: first 10,000 metrics", "2026-02-15")
DASHBOARD = Price(3.0, "dashboard-month", "factualminds.com, CloudWatch pricing", "2026-06-13")
ALARM = Price(
    0.10, "alarm-month", "general knowledge, not looked up: see aws.amazon.com/cloudwatch/pricing", "2026-11"
)
STORAGE = Price(
    0.023, "GB-month", "zeonedge.com, cloud storage cost guide: S3 Standard in us-east-1", "2026-04-09"
)
VOLUME = Price(0.08, "GB-month", "cloudoptimo.com, AWS EBS pricing: gp3 in us-east-1", "2026-11")
INSTANCES = {
    "m7i.2xlarge": Price(
        0.4032, "hour", "c3x.dev, m5 vs m6i vs m7i: on demand in us-east-1, twice the m7i.xlarge", "2026-11"
    ),
}
