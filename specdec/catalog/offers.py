"""Where each instance type is offered, as far as public data says. An offering is not capacity."""

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


_MOTO = "instance type offerings bundled with moto 5.2.5, and cfn-lint 1.58.0 E3628 (read 2026-11-29)"
_KILN = "foxl-ai/kiln docs/research/trn2-trn3.md @a04d1fa (EC2 API, 2026-10-03)"


def _zones(region: str, letters: str) -> tuple[str, ...]:
    return tuple(f"{region}{letter}" for letter in letters)


OFFERS: dict[str, tuple[RegionOffer, ...]] = {
    "trn2.48xlarge": (
        RegionOffer("us-east-2", _zones("us-east-2", "abc"), _MOTO),
        RegionOffer("ap-south-2", _zones("ap-south-2", "abc"), _MOTO),
        RegionOffer(
            "ap-southeast-4",
            _zones("ap-southeast-4", "abc"),
            "the published sample ran here (AWS Neuron EKS samples @cecff9e, 2026-02-26); zones not confirmed"
            " for this type",
        ),
    ),
    "trn2u.48xlarge": (RegionOffer("ap-south-2", _zones("ap-south-2", "abc"), _KILN),),
    "trn2.3xlarge": (
        RegionOffer("ap-southeast-4", _zones("ap-southeast-4", "c"), _KILN),
        RegionOffer("sa-east-1", _zones("sa-east-1", "abc"), _KILN),
        RegionOffer("ap-south-2", _zones("ap-south-2", "abc"), _KILN),
    ),
    "trn1.32xlarge": (
        RegionOffer(
            "us-east-1", _zones("us-east-1", "abcdef"), "AWS announcement (2022-10-10); zones not read"
        ),
        RegionOffer(
            "us-west-2", _zones("us-west-2", "abcd"), "AWS announcement (2022-10-10); zones not read"
        ),
        RegionOffer("us-east-2", _zones("us-east-2", "abc"), "general knowledge, not looked up"),
    ),
    "inf2.48xlarge": (
        RegionOffer(
            "us-east-1", _zones("us-east-1", "abcdef"), "AWS announcement (2023-04-13); zones not read"
        ),
        RegionOffer("us-east-2", _zones("us-east-2", "abc"), "AWS announcement (2023-04-13); zones not read"),
        RegionOffer("us-west-2", _zones("us-west-2", "abcd"), "general knowledge, not looked up"),
    ),
}
"""Instance type to the regions known to offer it."""
