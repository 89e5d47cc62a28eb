"""Each check in its outcomes, against answers that AWS's own service models accept."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from specdec.aws import DeniedError
from specdec.catalog.addons import ADDONS
from specdec.catalog.kubernetes import SUPPORT
from specdec.commands.check import status
from specdec.deployed import clients
from specdec.errors import NoAccessError
from specdec.experiment.reading import parse
from specdec.preflight import account, addons, blocks, capacity, leftovers, names, platform
from specdec.preflight.cost import cost, price_in
from specdec.preflight.finding import Finding
from specdec.preflight.run import run
from specdec.pricing.items import items
from tests.operate.conftest import DEFAULT, TODAY, WORKLOAD, StubbedAws, experiment_with, moment, scope_of

BLOCK = (
    ('purchase = "on-demand"', 'purchase = "capacity-block"'),
    ('zone = "us-east-2b"', 'zone = "us-east-2b"\nreservation_id = "cr-0000000a"'),
)


def levels(findings: list[Finding]) -> list[str]:
    return [finding.level for finding in findings]


@pytest.mark.parametrize(
    ("value", "level"), [(None, "blocker"), ("5", "blocker"), ("8", "warning"), ("28", "ok")]
)
def test_bootstrap(aws: StubbedAws, value: str | None, level: str) -> None:
    if value is None:
        aws.fails("ssm", "get_parameter", "ParameterNotFound")
    else:
        aws.answers("ssm", "get_parameter", {"Parameter": {"Value": value}})
    (found,) = account.bootstrap(scope_of(aws))
    assert found.level == level
    assert level == "ok" or found.remedy == "uv run npx cdk bootstrap aws://111122223333/us-east-2"


@pytest.mark.parametrize(
    ("status", "level"), [("opt-in-not-required", "ok"), ("opted-in", "ok"), ("not-opted-in", "blocker")]
)
def test_region(aws: StubbedAws, status: str, level: str) -> None:
    aws.answers("ec2", "describe_regions", {"Regions": [{"RegionName": "us-east-2", "OptInStatus": status}]})
    assert levels(list(account.region(scope_of(aws)))) == [level]


def test_a_region_aws_does_not_know(aws: StubbedAws) -> None:
    aws.fails("ec2", "describe_regions", "InvalidParameterValue", "Invalid region provided")
    assert levels(list(account.region(scope_of(aws)))) == ["blocker"]


@pytest.mark.parametrize(
    ("decision", "level"), [("allowed", "ok"), ("implicitDeny", "warning"), ("explicitDeny", "warning")]
)
def test_permissions_of_an_assumed_role_are_those_of_its_role(
    aws: StubbedAws, decision: str, level: str
) -> None:
    arn = "arn:aws:iam::111122223333:role/team/deployer"
    aws.answers(
        "iam",
        "get_role",
        {
            "Role": {
                "Path": "/team/",
                "RoleName": "deployer",
                "RoleId": "A" * 16,
                "Arn": arn,
                "CreateDate": moment("2026-01-01"),
            }
        },
    )
    deploy = "arn:aws:iam::111122223333:role/cdk-hnb659fds-deploy-role-111122223333-us-east-2"
    aws.answers(
        "iam",
        "simulate_principal_policy",
        {
            "EvaluationResults": [
                {"EvalActionName": "sts:AssumeRole", "EvalResourceName": deploy, "EvalDecision": decision}
            ]
        },
    )
    scope = scope_of(aws, caller="arn:aws:sts::111122223333:assumed-role/deployer/me")
    assert levels(list(account.permissions(scope))) == [level]


@pytest.mark.parametrize(("value", "level"), [(0.0, "blocker"), (191.0, "blocker"), (192.0, "ok")])
def test_quota_in_vcpus_of_the_largest_group(aws: StubbedAws, value: float, level: str) -> None:
    aws.answers("service-quotas", "get_service_quota", {"Quota": {"Value": value}})
    (found,) = capacity.quota(scope_of(aws))
    assert found.level == level
    assert level == "ok" or "L-2C3B7624 --desired-value 192" in (found.remedy or "")


def test_spot_nodes_count_against_their_own_quota(aws: StubbedAws) -> None:
    aws.answers("service-quotas", "get_service_quota", {"Quota": {"Value": 64.0}})
    spot = experiment_with(('purchase = "on-demand"', 'purchase = "spot"'))
    (found,) = capacity.quota(scope_of(aws, spot))
    assert (found.level, found.what) == ("blocker", "64 vCPUs of Trn spot instances allowed, 192 needed")
    assert "L-6B0D517C" in (found.remedy or "")


def test_a_quota_never_raised_has_its_default(aws: StubbedAws) -> None:
    aws.fails("service-quotas", "get_service_quota", "NoSuchResourceException")
    aws.answers("service-quotas", "get_aws_default_service_quota", {"Quota": {"Value": 0.0}})
    assert levels(list(capacity.quota(scope_of(aws, experiment_with(*BLOCK))))) == ["blocker"]


@pytest.mark.parametrize(
    ("zones", "level"), [([], "blocker"), (["us-east-2a"], "blocker"), (["us-east-2b"], "ok")]
)
def test_offering(aws: StubbedAws, zones: list[str], level: str) -> None:
    aws.answers(
        "ec2",
        "describe_instance_type_offerings",
        {"InstanceTypeOfferings": [{"Location": zone} for zone in zones]},
    )
    assert levels(list(capacity.offering(scope_of(aws)))) == [level]


def block(**changes: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": "cr-0000000a",
        "State": "active",
        "InstanceType": "trn2.48xlarge",
        "AvailabilityZone": "us-east-2b",
        "AvailableInstanceCount": 1,
        "TotalInstanceCount": 1,
        "ReservationType": "capacity-block",
        "EndDate": moment("2026-12-02T11:30:00"),
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["ok"]),
        ({"State": "scheduled", "StartDate": moment("2026-12-01T11:30:00")}, ["warning"]),
        ({"State": "expired"}, ["blocker"]),
        ({"AvailableInstanceCount": 0}, ["blocker"]),
        ({"AvailabilityZone": "us-east-2a"}, ["blocker"]),
        ({"ReservationType": "default", "InstanceType": "trn1.32xlarge"}, ["blocker", "blocker"]),
    ],
)
def test_reservation(aws: StubbedAws, changes: dict[str, Any], expected: list[str]) -> None:
    aws.answers("ec2", "describe_capacity_reservations", {"CapacityReservations": [block(**changes)]})
    if changes.get("AvailableInstanceCount") == 0:
        aws.answers("ec2", "describe_instances", {"Reservations": []})
    found = list(capacity.reservation(scope_of(aws, experiment_with(*BLOCK))))
    assert levels(found) == expected
    assert all(finding.remedy for finding in found if finding.level != "ok")


def test_a_reservation_that_our_own_node_fills_is_no_obstacle(aws: StubbedAws) -> None:
    aws.answers(
        "ec2", "describe_capacity_reservations", {"CapacityReservations": [block(AvailableInstanceCount=0)]}
    )
    aws.answers("ec2", "describe_instances", {"Reservations": [{"Instances": [{"InstanceId": "i-0a"}]}]})
    assert levels(list(capacity.reservation(scope_of(aws, experiment_with(*BLOCK))))) == ["ok"]


def test_a_reservation_that_does_not_exist(aws: StubbedAws) -> None:
    aws.fails("ec2", "describe_capacity_reservations", "InvalidCapacityReservationId.NotFound")
    assert levels(list(capacity.reservation(scope_of(aws, experiment_with(*BLOCK))))) == ["blocker"]


@pytest.mark.parametrize(
    ("nodes", "deployed", "level"), [(1, None, "warning"), (0, None, "ok"), (1, "CREATE_COMPLETE", "ok")]
)
def test_on_demand_is_warned_of_while_it_can_roll_a_stack_back(
    nodes: int, deployed: str | None, level: str
) -> None:
    assert capacity.judge_on_demand("trn2.48xlarge", nodes=nodes, deployed=deployed).level == level


def offered(identity: str, fee: str, zone: str) -> dict[str, Any]:
    return {
        "CapacityBlockDurationHours": 24,
        "AvailabilityZone": zone,
        "StartDate": moment("2026-12-01T11:30:00"),
        "CurrencyCode": "USD",
        "CapacityBlockOfferingId": identity,
        "UpfrontFee": fee,
    }


PLACES = [
    ("us-east-2", "trn2.48xlarge"),
    ("ap-south-2", "trn2.48xlarge"),
    ("ap-southeast-4", "trn2.48xlarge"),
    ("ap-south-2", "trn2u.48xlarge"),
    ("us-east-1", "trn1.32xlarge"),
    ("us-west-2", "trn1.32xlarge"),
    ("us-east-2", "trn1.32xlarge"),
]


def test_blocks_are_looked_for_wherever_the_experiment_could_run(aws: StubbedAws) -> None:
    scope = scope_of(aws)
    assert [
        (place.region, place.experiment.capacity.instance_type) for place in blocks.places(scope)
    ] == PLACES
    answers: list[list[dict[str, Any]]] = [[] for _ in PLACES]
    answers[0] = [offered("cb-costly", "1000.1", "us-east-2a"), offered("cb-own", "858.26", "us-east-2a")]
    answers[4] = [offered("cb-cheap", "228.77", "us-east-1d")]
    for answer in answers[:5]:
        aws.answers("ec2", "describe_capacity_block_offerings", {"CapacityBlockOfferings": answer})
    aws.fails("ec2", "describe_capacity_block_offerings", "OptInRequired", status=401)
    aws.answers("ec2", "describe_capacity_block_offerings", {"CapacityBlockOfferings": []})
    *offers, missed = blocks.blocks(scope)
    assert [finding.what.rpartition("(")[2] for finding in offers] == ["cb-cheap)", "cb-own)", "cb-costly)"]
    assert "trn1.32xlarge in us-east-1, 1 x 24 h from 2026-12-01 11:30 UTC for 228.77 USD" in offers[0].what
    assert "us-west-2" in missed.what
    # What the cheapest one says to put into the file makes an experiment that is sound.
    said = (offers[0].remedy or "").partition("file:\n")[2].replace("cr-...", "cr-0000a1b0")
    document: dict[str, Any] = tomllib.loads(DEFAULT.read_text(encoding="utf-8"))
    for name, value in tomllib.loads(said).items():
        document[name] = {**document[name], **value} if name in ("capacity", "serving") else value
    assert parse(tomlkit.dumps(document)).instance.type == "trn1.32xlarge"


def test_an_example_without_a_block_of_its_own_is_shown_some_and_one_with_is_not(aws: StubbedAws) -> None:
    example = experiment_with(BLOCK[0], (BLOCK[1][0], BLOCK[1][1].replace("cr-0000000a", "cr-00000000")))
    (finding,) = capacity.reservation(scope_of(aws, example))
    assert finding.level == "blocker"
    assert "placement.us-east-2.reservation_id is a placeholder" in finding.what
    held = experiment_with(*BLOCK)
    assert list(blocks.blocks(scope_of(aws, held))) == []


def test_no_quota_for_capacity_blocks_is_not_read_as_none_for_sale(aws: StubbedAws) -> None:
    aws.fails("ec2", "describe_capacity_block_offerings", "CapacityBlockDescribeLimitExceeded")
    (found,) = blocks.blocks(scope_of(aws))
    assert found.level == "warning"
    assert "quota" in found.what


def test_denied_is_never_read_as_no_capacity(aws: StubbedAws) -> None:
    message = (
        "User: x is not authorized to perform: ec2:DescribeCapacityBlockOfferings because no policy allows it"
    )
    aws.fails("ec2", "describe_capacity_block_offerings", "UnauthorizedOperation", message, 403)
    with pytest.raises(DeniedError) as caught:
        list(blocks.blocks(scope_of(aws)))
    assert caught.value.action == "ec2:DescribeCapacityBlockOfferings"
    assert isinstance(caught.value, NoAccessError)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(("wanted", "level"), [("1.36", "ok"), ("1.34", "warning"), ("1.35", "blocker")])
def test_kubernetes(aws: StubbedAws, wanted: str, level: str) -> None:
    versions = [
        {"clusterVersion": "1.36", "versionStatus": "STANDARD_SUPPORT"},
        {"clusterVersion": "1.35", "status": "unsupported"},
        {"clusterVersion": "1.34", "status": "extended-support"},
    ]
    aws.answers("eks", "describe_cluster_versions", {"clusterVersions": versions})
    scope = scope_of(
        aws, experiment_with(("[capacity]", f'[cluster]\nkubernetes_version = "{wanted}"\n\n[capacity]'))
    )
    assert levels(list(platform.kubernetes(scope))) == [level]


INSIGHTS = "amazon-cloudwatch-observability"


@pytest.mark.parametrize(
    ("offered", "wanted", "level", "said"),
    [
        ({"v2.7.0": False, "v2.6.0": True}, "v2.7.0", "ok", "the default of EKS is v2.6.0"),
        ({"v2.7.0": True}, "v2.7.0", "ok", "goes with Kubernetes 1.36"),
        ({"v2.7.0": True}, "v1.0.0", "blocker", "v1.0.0 is not offered for Kubernetes 1.36"),
        ({}, "v2.7.0", "blocker", "no version for Kubernetes 1.36"),
    ],
)
def test_addon(offered: dict[str, bool], wanted: str, level: str, said: str) -> None:
    found = addons.judge_addon(
        offered, addon=ADDONS["aws-mountpoint-s3-csi-driver"], kubernetes="1.36", wanted=wanted
    )
    assert (found.level, said in found.what) == (level, True)


def test_a_default_that_is_too_old_is_named() -> None:
    wanted = ADDONS[INSIGHTS].versions["1.35"]
    beside = addons.judge_addon(
        {wanted: False, "v5.3.1-eksbuild.1": True}, addon=ADDONS[INSIGHTS], kubernetes="1.35", wanted=wanted
    )
    assert beside.level == "ok"
    assert "the default of EKS is v5.3.1-eksbuild.1, which is too old for the settings" in beside.what
    alone = addons.judge_addon(
        {"v5.3.1-eksbuild.1": True}, addon=ADDONS[INSIGHTS], kubernetes="1.35", wanted=wanted
    )
    assert (alone.level, alone.remedy) == ("blocker", "Set cluster.kubernetes_version to another one")
    assert "up to v5.3.1-eksbuild.1" in alone.what
    assert "6.2.0 (2026-06-10) brought containerInsights.enabled" in alone.what
    newer = addons.judge_addon(
        {"v6.9.0-eksbuild.1": False, "v5.3.1-eksbuild.1": True},
        addon=ADDONS[INSIGHTS],
        kubernetes="1.35",
        wanted=wanted,
    )
    assert newer.remedy == f'Set cluster.addon_versions.{INSIGHTS} = "v6.9.0-eksbuild.1"'


def test_settings_are_held_against_the_schema_of_the_version() -> None:
    switch = {"type": "object", "additionalProperties": False, "properties": {"enabled": {"type": "boolean"}}}
    properties: dict[str, object] = dict.fromkeys(ADDONS[INSIGHTS].values, switch)
    schema: dict[str, object] = {"type": "object", "additionalProperties": False, "properties": properties}

    def judged(schema: str) -> Finding:
        return addons.judge_settings(schema, addon=ADDONS[INSIGHTS], version="v6.7.0-eksbuild.1")

    assert judged(json.dumps(schema)).level == "ok"
    del properties["containerInsights"]
    old = judged(json.dumps(schema))
    assert old.level == "blocker"
    assert "'containerInsights' was unexpected" in old.what
    properties["containerInsights"] = {"type": "object", "properties": {"enabled": {"type": "string"}}}
    assert "containerInsights.enabled: True is not of type 'string'" in judged(json.dumps(schema)).what
    assert judged("").level == "blocker", "an add-on without a schema takes no settings"


def test_every_addon_is_asked_about(aws: StubbedAws) -> None:
    kubernetes = experiment_with().cluster.kubernetes_version
    for addon in ADDONS.values():
        aws.answers(
            "eks",
            "describe_addon_versions",
            {"addons": [{"addonVersions": [{"addonVersion": addon.versions[kubernetes]}]}]},
        )
        if addon.values:
            aws.answers("eks", "describe_addon_configuration", {"configurationSchema": "{}"})
    found = list(addons.addons(scope_of(aws)))
    assert levels(found) == ["ok"] * (len(ADDONS) + 2)


def test_every_addon_has_a_version_of_each_kubernetes_version() -> None:
    for addon in ADDONS.values():
        assert addon.versions.keys() == SUPPORT.keys(), addon.name
        assert addon.source
        for version in addon.versions.values():
            assert re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", version)
            assert not addon.below_floor(version)


@pytest.mark.parametrize(("present", "level"), [(True, "ok"), (False, "blocker")])
def test_node_image(aws: StubbedAws, present: bool, level: str) -> None:
    if present:
        aws.answers("ssm", "get_parameter", {"Parameter": {"Value": "ami-0a"}})
    else:
        aws.fails("ssm", "get_parameter", "ParameterNotFound")
    assert levels(list(platform.image(scope_of(aws)))) == [level]


def test_the_estimate_counts_the_dashboards_and_alarms_of_the_template() -> None:
    snapshot = Path(__file__).parents[1] / "stack" / "__snapshots__" / "test_snapshot" / "test_template.json"
    kinds = [
        resource["Type"]
        for resource in json.loads(snapshot.read_text(encoding="utf-8"))["Resources"].values()
    ]
    table = items(experiment_with(), "us-east-2", WORKLOAD, today=TODAY)
    counts = {item.name: item.count for item in table}
    assert counts["dashboards"] == kinds.count("AWS::CloudWatch::Dashboard") > 0
    assert counts["alarms"] == kinds.count("AWS::CloudWatch::Alarm") > 0


@pytest.mark.parametrize(
    ("kind", "name", "kept", "level"),
    [
        ("cluster", "a", None, "blocker"),
        ("dashboard", "a", None, "blocker"),
        ("log group", "/aws/eks/a/cluster", None, "blocker"),
        ("log group", "a-NetworkFlowLogs-X", None, "warning"),
        ("role", "a-NodeRole-X", None, "warning"),
        ("bucket", "a-modelstore", "store.on_destroy is `retain`", "warning"),
        ("bucket", "a-modelstore", "placement.us-east-2.bucket names it", None),
        ("kms key", "1234", "its deletion is scheduled", None),
    ],
)
def test_what_is_left_stands_in_the_way_only_if_the_next_stack_takes_its_name(
    kind: str, name: str, kept: str | None, level: str | None
) -> None:
    found = names.judge_leftover(leftovers.Leftover(kind, name, "us-east-2", "remove it", kept))
    assert (found.level if found else None) == level


def test_a_kept_bucket_is_offered_for_use_before_it_is_offered_for_removal() -> None:
    found = names.judge_leftover(
        leftovers.Leftover("bucket", "a-modelstore", "us-east-2", "aws s3 rb", "kept")
    )
    assert found is not None
    assert (found.remedy or "").startswith('Set placement.us-east-2.bucket = "a-modelstore"')


def test_a_terminated_instance_whose_tags_live_on_is_not_left(aws: StubbedAws) -> None:
    for state, expected in (("terminated", None), ("running", "i-0a")):
        aws.answers(
            "ec2", "describe_instances", {"Reservations": [{"Instances": [{"State": {"Name": state}}]}]}
        )
        handle = leftovers._handle  # pyright: ignore[reportPrivateUsage]
        assert handle(aws.clients, "instance", "i-0a") == expected


def test_a_price_that_may_not_be_asked_leaves_the_rest_of_the_costs(aws: StubbedAws) -> None:
    aws.fails("pricing", "get_products", "AccessDeniedException")
    found = list(cost(scope_of(aws)))
    assert found[-1].level == "unknown"
    assert found[-1].denied == "GetProducts"
    assert found[-1].what.startswith("today's price of trn2.48xlarge and m7i.2xlarge not looked at: ")
    assert any("in all" in finding.what for finding in found)


def test_a_price_that_was_told_is_not_among_those_not_looked_at(aws: StubbedAws) -> None:
    price = {"terms": {"OnDemand": {"x": {"priceDimensions": {"y": {"pricePerUnit": {"USD": "40"}}}}}}}
    aws.answers("pricing", "get_products", {"PriceList": [json.dumps(price)]})
    aws.fails("pricing", "get_products", "ThrottlingException")
    found = list(cost(scope_of(aws)))
    assert found[0].what.startswith("trn2.48xlarge nodes, while up (1): 40.000 USD an hour; AWS pricing API")
    assert found[-1].what.startswith("today's price of m7i.2xlarge not looked at: ")


def test_a_question_without_an_answer_is_unknown_and_exits_with_4(
    aws: StubbedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.fails("eks", "describe_cluster_versions", "ServerException", "come back later")
    monkeypatch.setattr("specdec.preflight.run.CHECKS", {"kubernetes": platform.kubernetes})
    found = run(scope_of(aws), on_done=lambda name, done, total: None)
    assert [(finding.level, finding.what) for finding in found] == [
        (
            "unknown",
            "not checked: AWS answers DescribeClusterVersions with ServerException: come back later",
        )
    ]
    assert status(found) == 4


def test_a_region_that_is_not_enabled_is_found_although_it_does_not_know_the_caller(aws: StubbedAws) -> None:
    aws.fails("sts", "get_caller_identity", "InvalidClientTokenId", status=403)
    aws.answers(
        "sts", "get_caller_identity", {"Account": "111122223333", "Arn": "arn:aws:iam::111122223333:user/eng"}
    )
    assert clients.who(aws.clients)[0] == "111122223333"
    aws.fails("ec2", "describe_regions", "AuthFailure", status=401)
    aws.answers(
        "ec2", "describe_regions", {"Regions": [{"RegionName": "us-east-2", "OptInStatus": "not-opted-in"}]}
    )
    asked: list[str] = []
    found = run(scope_of(aws), on_done=lambda name, done, total: asked.append(name))
    assert [(finding.check, finding.level) for finding in found] == [("region", "blocker")]
    assert asked == ["region"]


def test_endpoints(aws: StubbedAws) -> None:
    assert levels(list(platform.endpoints(scope_of(aws)))) == ["ok"]


@pytest.mark.parametrize(
    ("status", "level"),
    [
        (None, "ok"),
        ("UPDATE_COMPLETE", "ok"),
        ("ROLLBACK_COMPLETE", "blocker"),
        ("DELETE_FAILED", "blocker"),
        ("UPDATE_IN_PROGRESS", "blocker"),
        ("UPDATE_ROLLBACK_COMPLETE", "ok"),
    ],
)
def test_stack(status: str | None, level: str) -> None:
    found = names.judge_stack(status, name="qwen3-specdec-us-east-2")
    assert found.level == level
    assert level == "ok" or found.remedy


def test_a_price_of_the_pricing_api() -> None:
    product = {
        "terms": {"OnDemand": {"a": {"priceDimensions": {"b": {"pricePerUnit": {"USD": "0.4032000000"}}}}}}
    }
    assert price_in([json.dumps(product)]) == 0.4032
    assert price_in([]) is None
