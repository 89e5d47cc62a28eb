"""What differs between regions beside the instances they offer."""

from __future__ import annotations

from specdec.catalog.offers import OFFERS


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
