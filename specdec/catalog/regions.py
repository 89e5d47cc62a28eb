"""Where trn2 instances are offered, as far as public data says. An offering is not capacity."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RegionOffer:
    """One region that offers an instance type.

    Attributes:
        region: AWS region.
        zones: zone names seen with the type.
        source: where this was read, with the date.
    """

    region: str
    zones: tuple[str, ...]
    source: str


OFFERS = {
    "trn2.48xlarge": (
        RegionOffer(
            "us-east-2",
            ("us-east-2a", "us-east-2b", "us-east-2c"),
            "instance type offerings bundled with moto 5.2.5, and cfn-lint 1.58.0 E3628 (read 2026-11-29)",
        ),
        RegionOffer(
            "ap-south-2",
            ("ap-south-2a", "ap-south-2b", "ap-south-2c"),
            "instance type offerings bundled with moto 5.2.5, and cfn-lint 1.58.0 E3628 (read 2026-11-29)",
        ),
        RegionOffer(
            "ap-southeast-4",
            ("ap-southeast-4a", "ap-southeast-4b", "ap-southeast-4c"),
            "the published sample ran here (AWS Neuron EKS samples @cecff9e, 2026-02-26); zones not confirmed"
            " for this type",
        ),
    ),
}
"""Instance type to the regions known to offer it."""


def zones_of(region: str) -> tuple[str, ...]:
    """Every zone of a region that some instance type is known to be offered in, in a fixed order; none where
    the catalogue does not know the region.
    """
    offers = [offer for listed in OFFERS.values() for offer in listed if offer.region == region]
    return tuple(sorted({zone for offer in offers for zone in offer.zones}))


WITHOUT_BUDGETS = frozenset(
    {
        "af-south-1",
        "ap-east-1",
        "ap-east-2",
        "ap-northeast-3",
        "ap-south-2",
        "ap-southeast-3",
        "ap-southeast-4",
        "ap-southeast-5",
        "ap-southeast-6",
        "ap-southeast-7",
        "ca-west-1",
        "eu-central-2",
        "eu-north-1",
        "eu-south-1",
        "eu-south-2",
        "il-central-1",
        "me-central-1",
        "mx-central-1",
        "us-gov-east-1",
        "us-gov-west-1",
    }
)
"""Regions in which CloudFormation has no ``AWS::Budgets::Budget``, from the schemas in cfn-lint 1.58.0 (read
2026-11-29).
"""
