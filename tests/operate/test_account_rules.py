"""The permissions boundary and the key are looked at before they can stop a deployment half-way."""

import json
from typing import Any

import pytest

from specdec.preflight import account, account_rules
from tests.operate.conftest import ACCOUNT, REGION, StubbedAws, experiment_with, scope_of

KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0a1b2c3d-0000-0000-0000-000000000000"
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/Boundary"
RULED = experiment_with(
    (
        'zone = "us-east-2b"',
        f'zone = "us-east-2b"\nkms_key_arn = "{KEY}"\n\n[account]\nid = "{ACCOUNT}"\n'
        f'permissions_boundary = "{BOUNDARY}"\nbootstrap_qualifier = "ourteam"\n',
    )
)
ROOT = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "kms:*"}
LOGS = {
    "Effect": "Allow",
    "Principal": {"Service": f"logs.{REGION}.amazonaws.com"},
    "Action": ["kms:Decrypt*", "kms:GenerateDataKey*"],
}


def test_credentials_of_another_account_are_a_blocker(aws: StubbedAws) -> None:
    other = experiment_with(("[capacity]", '[account]\nid = "999999999999"\n\n[capacity]'))
    (finding,) = account.identity(scope_of(aws, other))
    assert finding.level == "blocker"
    assert ACCOUNT in finding.what
    assert "999999999999" in finding.what
    assert [finding.level for finding in account.identity(scope_of(aws, RULED))] == ["ok"]


@pytest.mark.parametrize(
    ("refused", "level"), [((), "ok"), (("s3:PutObject", "eks-auth:AssumeRoleForPodIdentity"), "blocker")]
)
def test_a_boundary_that_takes_away_what_roles_need(
    aws: StubbedAws, refused: tuple[str, ...], level: str
) -> None:
    aws.answers("iam", "get_policy", {"Policy": {"DefaultVersionId": "v3"}})
    document = json.dumps({"Version": "2012-10-17", "Statement": []})
    aws.answers("iam", "get_policy_version", {"PolicyVersion": {"Document": document}})
    decisions = [
        {"EvalActionName": action, "EvalDecision": "implicitDeny" if action in refused else "allowed"}
        for action in account_rules.needed_actions(RULED, REGION)
    ]
    aws.answers("iam", "simulate_custom_policy", {"EvaluationResults": decisions})
    (finding,) = account_rules.boundary(scope_of(aws, RULED))
    assert finding.level == level
    assert all(action in finding.what for action in refused)


def test_a_boundary_that_does_not_exist(aws: StubbedAws) -> None:
    aws.fails("iam", "get_policy", "NoSuchEntity")
    (finding,) = account_rules.boundary(scope_of(aws, RULED))
    assert (finding.level, BOUNDARY in finding.what) == ("blocker", True)


def test_without_rules_nothing_is_asked(aws: StubbedAws) -> None:
    assert list(account_rules.boundary(scope_of(aws))) == []
    assert list(account_rules.key(scope_of(aws))) == []


@pytest.mark.parametrize(
    ("statements", "missing"),
    [
        ([ROOT, LOGS], ()),
        ([ROOT], (f"logs.{REGION}.amazonaws.com",)),
        ([LOGS], (f"{ACCOUNT}:root",)),
        ([{**ROOT, "Effect": "Deny"}, LOGS], (f"{ACCOUNT}:root",)),
        ([{**ROOT, "Action": ["kms:Decrypt"]}, LOGS], (f"{ACCOUNT}:root",)),
        ([ROOT, {**LOGS, "Principal": {"Service": "logs.eu-west-1.amazonaws.com"}}], (f"logs.{REGION}",)),
    ],
)
def test_the_policy_of_a_key(
    aws: StubbedAws, statements: list[dict[str, Any]], missing: tuple[str, ...]
) -> None:
    aws.answers("kms", "describe_key", {"KeyMetadata": {"KeyId": KEY, "KeyState": "Enabled"}})
    aws.answers("kms", "get_key_policy", {"Policy": json.dumps({"Statement": statements})})
    (finding,) = account_rules.key(scope_of(aws, RULED))
    assert finding.level == ("blocker" if missing else "ok")
    assert all(name in finding.what for name in missing)


@pytest.mark.parametrize(
    "facts",
    [
        {"KeyState": "PendingDeletion"},
        {"KeyState": "Disabled"},
        {"KeyState": "Enabled", "KeySpec": "RSA_2048"},
    ],
)
def test_a_key_that_cannot_encrypt(facts: dict[str, Any]) -> None:
    finding = account_rules.judge_key(KEY, facts, {"Statement": [ROOT, LOGS]}, region=REGION)
    assert finding.level == "blocker"


def test_a_key_that_does_not_exist(aws: StubbedAws) -> None:
    aws.fails("kms", "describe_key", "NotFoundException")
    (finding,) = account_rules.key(scope_of(aws, RULED))
    assert finding.level == "blocker"


def test_the_bootstrap_is_looked_up_by_its_qualifier(
    aws: StubbedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def get_parameter(*, Name: str) -> dict[str, Any]:  # noqa: N803
        asked.append(Name)
        return {"Parameter": {"Value": "30"}}

    monkeypatch.setattr(aws.clients("ssm"), "get_parameter", get_parameter)
    assert [finding.level for finding in account.bootstrap(scope_of(aws, RULED))] == ["ok"]
    assert asked == ["/cdk-bootstrap/ourteam/version"]
