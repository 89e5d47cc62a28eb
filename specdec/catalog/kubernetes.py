"""How long EKS supports a Kubernetes version, and what its control plane costs meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from specdec.catalog.service_prices import CONTROL_PLANE, CONTROL_PLANE_EXTENDED, Price


@dataclass(frozen=True, slots=True)
class Support:
    """Support of one Kubernetes version on EKS.

    Attributes:
        version: minor version.
        standard_until: last day of standard support; None where no date has been found.
        extended_until: last day of extended support; the cluster is upgraded after it.
        source: where the dates were read.
    """

    version: str
    standard_until: date | None
    extended_until: date | None
    source: str

    def control_plane(self, today: date) -> Price:
        """Price of the control plane on a day. A version without a known date is priced as in standard
        support; ``specdec check`` asks EKS itself.
        """
        extended = self.standard_until is not None and today > self.standard_until
        return CONTROL_PLANE_EXTENDED if extended else CONTROL_PLANE


_CALENDAR = "EKS release calendar, by endoflife.date/amazon-eks"

SUPPORT = {
    support.version: support
    for support in (
        Support("1.34", date(2026, 12, 2), date(2027, 12, 2), f"{_CALENDAR} (2026-02-14)"),
        Support("1.35", date(2027, 3, 27), date(2028, 3, 27), f"{_CALENDAR} (2026-02-14)"),
        Support(
            "1.36",
            None,
            None,
            "offered by EKS (AMI changelog v20260714); no end date found in public text (2026-12-01)",
        ),
    )
}
"""Versions that an experiment may name."""
