"""Planted offers, asked for through boto3, which reads every answer by AWS's own service model; and a node
group's new size.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from specdec.deployed.clients import Clients
from specdec.preflight.cost import asked
from specdec.rehearsal.emulator import Session
from tests.emulated.account import DrilledAws
from tests.emulated.offers import Block, Offer

REGION, OTHER = "us-east-2", "ap-south-2"
NOW = datetime.now(UTC).replace(microsecond=0)
IMAGE = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/neuron/recommended/image_id"
FULL = Offer(
    quotas={"L-2C3B7624": 192.0},
    zones={"trn2.48xlarge": ["us-east-2b", "us-east-2c"], "m7i.2xlarge": ["us-east-2a"]},
    blocks=[
        Block("cb-1", "trn2.48xlarge", "us-east-2b", 1, 24, (NOW + timedelta(days=3)).isoformat(), 858.26),
        Block("cb-2", "trn2.48xlarge", "us-east-2b", 1, 48, (NOW + timedelta(days=3)).isoformat(), 1700.0),
        Block("cb-3", "trn2.48xlarge", "us-east-2b", 1, 24, (NOW + timedelta(days=30)).isoformat(), 1.0),
    ],
    kubernetes={"1.36": "STANDARD_SUPPORT", "1.33": "EXTENDED_SUPPORT"},
    addons={"coredns": {"1.36": ["v1.14.2-eksbuild.1", "v1.14.1-eksbuild.1"]}},
    schemas={"coredns": '{"type": "object"}'},
    prices={"trn2.48xlarge": 40.5},
    parameters={IMAGE: "ami-0123456789abcdef0"},
)


@pytest.fixture(scope="module")
def offering(account: DrilledAws) -> DrilledAws:
    account.offer({REGION: FULL, OTHER: Offer(blocks=None)})
    return account


@pytest.fixture
def session(offering: DrilledAws) -> Session:
    return offering.session(REGION)


@pytest.fixture
def other(offering: DrilledAws) -> Session:
    return offering.session(OTHER)


def content(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response.get("Error", {}).get("Code"))


def test_an_offer_survives_being_written_down() -> None:
    for offer in (FULL, Offer(blocks=None)):
        assert Offer.of(json.loads(json.dumps(offer.plain()))) == offer


def test_a_quota(session: Session, other: Session) -> None:
    for call in ("get_service_quota", "get_aws_default_service_quota"):
        found = getattr(session.client("service-quotas"), call)(ServiceCode="ec2", QuotaCode="L-2C3B7624")
        assert content(found) == {"Quota": {"ServiceCode": "ec2", "QuotaCode": "L-2C3B7624", "Value": 192.0}}
        with pytest.raises(ClientError) as error:
            getattr(other.client("service-quotas"), call)(ServiceCode="ec2", QuotaCode="L-2C3B7624")
        assert code_of(error) == "NoSuchResourceException"


def test_the_zones_of_an_instance_type(session: Session, other: Session) -> None:
    asked: dict[str, Any] = {
        "LocationType": "availability-zone",
        "Filters": [{"Name": "instance-type", "Values": ["trn2.48xlarge"]}],
    }
    place = {"InstanceType": "trn2.48xlarge", "LocationType": "availability-zone"}
    found = session.client("ec2").describe_instance_type_offerings(**asked)
    assert content(found) == {
        "InstanceTypeOfferings": [{**place, "Location": "us-east-2b"}, {**place, "Location": "us-east-2c"}]
    }
    assert content(other.client("ec2").describe_instance_type_offerings(**asked)) == {
        "InstanceTypeOfferings": []
    }


def test_only_the_capacity_blocks_that_were_asked_for(session: Session, other: Session) -> None:
    asked: dict[str, Any] = {
        "InstanceType": "trn2.48xlarge",
        "InstanceCount": 1,
        "CapacityDurationHours": 24,
        "StartDateRange": NOW,
        "EndDateRange": NOW + timedelta(days=14),
    }
    (found,) = session.client("ec2").describe_capacity_block_offerings(**asked)["CapacityBlockOfferings"]
    assert found == {
        "CapacityBlockOfferingId": "cb-1",
        "InstanceType": "trn2.48xlarge",
        "AvailabilityZone": "us-east-2b",
        "InstanceCount": 1,
        "StartDate": NOW + timedelta(days=3),
        "EndDate": NOW + timedelta(days=4),
        "CapacityBlockDurationHours": 24,
        "UpfrontFee": "858.26",
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }
    with pytest.raises(ClientError) as error:
        other.client("ec2").describe_capacity_block_offerings(**asked)
    assert code_of(error) == "CapacityBlockDescribeLimitExceeded"


def test_versions_of_eks_and_of_its_addons(session: Session, other: Session) -> None:
    eks = session.client("eks")
    assert content(eks.describe_cluster_versions())["clusterVersions"] == [
        {"clusterVersion": "1.36", "versionStatus": "STANDARD_SUPPORT"},
        {"clusterVersion": "1.33", "versionStatus": "EXTENDED_SUPPORT"},
    ]
    (addon,) = eks.describe_addon_versions(addonName="coredns", kubernetesVersion="1.36")["addons"]
    assert [version["addonVersion"] for version in addon["addonVersions"]] == [
        "v1.14.2-eksbuild.1",
        "v1.14.1-eksbuild.1",
    ]
    defaults = [version["compatibilities"][0]["defaultVersion"] for version in addon["addonVersions"]]
    assert defaults == [False, True]
    assert eks.describe_addon_versions(addonName="coredns", kubernetesVersion="1.37")["addons"] == []
    told = eks.describe_addon_configuration(addonName="coredns", addonVersion="v1.14.2-eksbuild.1")
    assert json.loads(told["configurationSchema"]) == {"type": "object"}
    assert other.client("eks").describe_cluster_versions()["clusterVersions"] == []


def test_a_public_parameter(session: Session, other: Session) -> None:
    found = session.client("ssm").get_parameter(Name=IMAGE)["Parameter"]
    assert (found["Value"], found["ARN"]) == (
        "ami-0123456789abcdef0",
        f"arn:aws:ssm:{REGION}::parameter{IMAGE}",
    )
    session.client("ssm").put_parameter(Name="/own", Value="v", Type="String")
    assert session.client("ssm").get_parameter(Name="/own")["Parameter"]["Value"] == "v"
    with pytest.raises(ClientError) as error:
        other.client("ssm").get_parameter(Name=IMAGE)
    assert code_of(error) == "ParameterNotFound"


def test_a_price_wherever_it_is_asked_for(session: Session, other: Session) -> None:
    for asker in (session, other):
        assert asked(Clients(asker, asker.region_name), instance_type="trn2.48xlarge", region=REGION) == 40.5
        assert asked(Clients(asker, asker.region_name), instance_type="trn2.48xlarge", region=OTHER) is None


def test_of_a_region_without_an_offer_the_account_knows_nothing(offering: DrilledAws) -> None:
    with pytest.raises(ClientError):
        offering.session("eu-west-1").client("eks").describe_cluster_versions()


def test_a_node_group_takes_a_new_size_and_no_impossible_one(session: Session) -> None:
    eks = session.client("eks")
    role = "arn:aws:iam::111122223333:role/x"
    eks.create_cluster(name="sized", roleArn=role, resourcesVpcConfig={"subnetIds": ["subnet-a"]})
    size = {"minSize": 0, "maxSize": 2, "desiredSize": 0}
    where = {"clusterName": "sized", "nodegroupName": "group"}
    eks.create_nodegroup(**where, subnets=["subnet-a"], nodeRole=role, scalingConfig=size)
    update = eks.update_nodegroup_config(**where, scalingConfig={"desiredSize": 2})["update"]
    assert (update["type"], update["params"]) == ("ConfigUpdate", [{"type": "DesiredSize", "value": "2"}])
    assert eks.describe_nodegroup(**where)["nodegroup"]["scalingConfig"] == {**size, "desiredSize": 2}
    for wrong in ({"scalingConfig": {"desiredSize": 3}}, {"labels": {"removeLabels": ["a"]}}):
        with pytest.raises(ClientError) as error:
            eks.update_nodegroup_config(**where, **wrong)
        assert code_of(error) == "InvalidParameterException"
    with pytest.raises(ClientError) as error:
        eks.update_nodegroup_config(
            clusterName="sized", nodegroupName="none", scalingConfig={"desiredSize": 1}
        )
    assert code_of(error) == "ResourceNotFoundException"
    assert eks.describe_nodegroup(**where)["nodegroup"]["scalingConfig"]["desiredSize"] == 2
    eks.delete_cluster(name="sized")
