"""What AWS offers an account in a region, planted, and the answers to the calls that ask for it.

The pinned emulator knows none of these calls. Pure: a request in, its answer as AWS writes it out. Names and
shapes are those of botocore's service models (1.43.106); the tests read every answer back through them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self
from urllib.parse import parse_qs
from xml.etree import ElementTree

from specdec.rehearsal.emulator.server import Answer, Request

ASKED = frozenset({"ec2", "eks", "pricing", "servicequotas", "ssm"})
"""Services, as requests are signed for them, of which some calls are answered here."""


@dataclass(frozen=True, slots=True)
class Block:
    """A Capacity Block for sale.

    Attributes:
        id: of the offering.
        instance_type: what it holds.
        zone: where.
        instances: how many.
        hours: how long.
        start: when, ISO 8601 with offset.
        usd: whole price, US dollars.
    """

    id: str
    instance_type: str
    zone: str
    instances: int
    hours: int
    start: str
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one region has for the account. What is not named is not there.

    Attributes:
        quotas: value of each quota of EC2, by its code.
        zones: zones that offer an instance type, by the type.
        blocks: Capacity Blocks for sale; None where the account's quota for them is 0, so that EC2 shows
            none.
        kubernetes: status of each version of EKS: STANDARD_SUPPORT, EXTENDED_SUPPORT or UNSUPPORTED.
        addons: versions of each add-on, newest first, by Kubernetes version; the last is EKS's default.
        schemas: JSON schema of an add-on's settings as text, by its name; every version has the same.
        parameters: values of AWS's public Systems Manager parameters, by name.
        prices: on-demand price of an instance type, US dollars an hour, by the type.
    """

    quotas: dict[str, float] = field(default_factory=dict[str, float])
    zones: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    blocks: list[Block] | None = field(default_factory=list[Block])
    kubernetes: dict[str, str] = field(default_factory=dict[str, str])
    addons: dict[str, dict[str, list[str]]] = field(default_factory=dict[str, dict[str, list[str]]])
    schemas: dict[str, str] = field(default_factory=dict[str, str])
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    prices: dict[str, float] = field(default_factory=dict[str, float])

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """From plain data."""
        blocks: list[dict[str, Any]] | None = document["blocks"]
        fields: dict[str, Any] = {
            **document,
            "blocks": None if blocks is None else [Block(**block) for block in blocks],
        }
        return cls(**fields)


def answer(request: Request, offers: Mapping[str, Offer], *, region: str) -> Answer | None:
    """The answer to a call about what is offered; None for every other call, and for a region of which
    nothing is known.

    Args:
        request: the call.
        offers: by region.
        region: where the call was made.
    """
    if request.service == "pricing":
        # The pricing API lives in one region and answers for all.
        wanted = {given["Field"]: given["Value"] for given in json.loads(request.body)["Filters"]}
        return (
            _price(wanted["instanceType"], offers[wanted["regionCode"]])
            if wanted["regionCode"] in offers
            else None
        )
    offer = offers.get(region)
    if offer is None:
        return None
    match request.service:
        case "ec2":
            form = parse_qs(request.body.decode())
            found = _EC2.get(form.get("Action", [""])[0])
            return found(form, offer) if found else None
        case "eks" if request.method == "GET":
            told = _EKS.get(request.path)
            return told(request.query, offer) if told else None
        case "servicequotas":
            return _quota(json.loads(request.body), offer)
        case "ssm" if request.headers.get("x-amz-target", "").endswith(".GetParameter"):
            return _parameter(str(json.loads(request.body)["Name"]), offer, region)
        case _:
            return None


def _quota(arguments: Mapping[str, str], offer: Offer) -> Answer:
    quota = arguments["QuotaCode"]
    if arguments["ServiceCode"] != "ec2" or quota not in offer.quotas:
        return _json(
            {
                "__type": "NoSuchResourceException",
                "Message": f"The request failed: there is no quota {quota}",
            },
            400,
        )
    return _json({"Quota": {"ServiceCode": "ec2", "QuotaCode": quota, "Value": offer.quotas[quota]}})


def _price(kind: str, offer: Offer) -> Answer:
    products: list[str] = []
    if kind in offer.prices:
        dimension = {"unit": "Hrs", "pricePerUnit": {"USD": f"{offer.prices[kind]:.10f}"}}
        terms = {"OnDemand": {"term": {"priceDimensions": {"rate": dimension}}}}
        products.append(json.dumps({"serviceCode": "AmazonEC2", "terms": terms}))
    return _json({"FormatVersion": "aws_v1", "PriceList": products})


def _parameter(name: str, offer: Offer, region: str) -> Answer | None:
    if name not in offer.parameters:
        return None
    arn = f"arn:aws:ssm:{region}::parameter{name}"
    return _json(
        {
            "Parameter": {
                "Name": name,
                "Type": "String",
                "Value": offer.parameters[name],
                "Version": 1,
                "ARN": arn,
                "DataType": "text",
            }
        }
    )


def _versions(query: Mapping[str, list[str]], offer: Offer) -> Answer:
    versions = [
        {"clusterVersion": version, "versionStatus": status} for version, status in offer.kubernetes.items()
    ]
    return _json({"clusterVersions": versions})


def _addons(query: Mapping[str, list[str]], offer: Offer) -> Answer:
    (name,), (kubernetes,) = query["addonName"], query["kubernetesVersion"]
    offered = offer.addons.get(name, {}).get(kubernetes, [])
    versions = [
        {
            "addonVersion": version,
            "compatibilities": [{"clusterVersion": kubernetes, "defaultVersion": version == offered[-1]}],
        }
        for version in offered
    ]
    return _json({"addons": [{"addonName": name, "addonVersions": versions}] if versions else []})


def _schema(query: Mapping[str, list[str]], offer: Offer) -> Answer:
    (name,), (version,) = query["addonName"], query["addonVersion"]
    schema = offer.schemas.get(name, "")
    return _json({"addonName": name, "addonVersion": version, "configurationSchema": schema})


def _offerings(form: Mapping[str, list[str]], offer: Offer) -> Answer:
    kinds = form["Filter.1.Value.1"] if form.get("Filter.1.Name") == ["instance-type"] else list(offer.zones)
    place = {"locationType": "availability-zone"}
    found = [
        {"instanceType": kind, **place, "location": zone}
        for kind in kinds
        for zone in offer.zones.get(kind, [])
    ]
    return _xml("DescribeInstanceTypeOfferings", {"instanceTypeOfferingSet": found})


def _blocks(form: Mapping[str, list[str]], offer: Offer) -> Answer:
    if offer.blocks is None:
        return _ec2_error("CapacityBlockDescribeLimitExceeded", "The account's limit of Capacity Blocks is 0")
    first, last = (datetime.fromisoformat(form[name][0]) for name in ("StartDateRange", "EndDateRange"))
    wanted = (form["InstanceType"][0], int(form["InstanceCount"][0]), int(form["CapacityDurationHours"][0]))
    found = [
        {
            "capacityBlockOfferingId": block.id,
            "instanceType": block.instance_type,
            "availabilityZone": block.zone,
            "instanceCount": block.instances,
            "startDate": block.start,
            "endDate": (datetime.fromisoformat(block.start) + timedelta(hours=block.hours)).isoformat(),
            "capacityBlockDurationHours": block.hours,
            "upfrontFee": f"{block.usd:.2f}",
            "currencyCode": "USD",
            "tenancy": "default",
        }
        for block in offer.blocks
        if (block.instance_type, block.instances, block.hours) == wanted
        and first <= datetime.fromisoformat(block.start) <= last
    ]
    return _xml("DescribeCapacityBlockOfferings", {"capacityBlockOfferingSet": found})


_EC2: dict[str, Callable[[Mapping[str, list[str]], Offer], Answer]] = {
    "DescribeInstanceTypeOfferings": _offerings,
    "DescribeCapacityBlockOfferings": _blocks,
}
_EKS: dict[str, Callable[[Mapping[str, list[str]], Offer], Answer]] = {
    "/cluster-versions": _versions,
    "/addons/supported-versions": _addons,
    "/addons/configuration-schemas": _schema,
}


def _json(document: dict[str, Any], status: int = 200) -> Answer:
    return status, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(document).encode()


def _xml(action: str, lists: dict[str, list[dict[str, Any]]]) -> Answer:
    root = ElementTree.Element(f"{action}Response", xmlns="http://ec2.amazonaws.com/doc/2016-11-15/")
    for name, entries in lists.items():
        found = ElementTree.SubElement(root, name)
        for entry in entries:
            item = ElementTree.SubElement(found, "item")
            for key, value in entry.items():
                ElementTree.SubElement(item, key).text = str(value)
    return 200, {"Content-Type": "text/xml"}, ElementTree.tostring(root)


def _ec2_error(code: str, message: str) -> Answer:
    root = ElementTree.Element("Response")
    error = ElementTree.SubElement(ElementTree.SubElement(root, "Errors"), "Error")
    ElementTree.SubElement(error, "Code").text, ElementTree.SubElement(error, "Message").text = code, message
    return 400, {"Content-Type": "text/xml"}, ElementTree.tostring(root)
