"""Rules of the account reach every resource they concern, and change nothing where there are none."""

import json
import re
from pathlib import Path

import pytest

from specdec.errors import BadInputError
from specdec.experiment.reading import parse
from specdec.preflight.account_rules import KEY_ACTIONS, NEEDED, needed_actions
from stacks.app import add_stacks, new_app
from tests.stack.synthesis import DEFAULT, EVERYTHING, REGION, Template, template

pytestmark = pytest.mark.slow

ACCOUNT = "111122223333"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0a1b2c3d-0000-0000-0000-000000000000"
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/teams/Boundary"
RULES = (
    (
        'zone = "us-east-2b"',
        f'''zone = "us-east-2b"
kms_key_arn = "{KEY}"

[account]
id = "{ACCOUNT}"
permissions_boundary = "{BOUNDARY}"
role_path = "/teams/inference/"
role_prefix = "ml-"
tags = {{ data-class = "internal" }}
bootstrap_qualifier = "ourteam"
deploy_role_arn = "arn:aws:iam::{ACCOUNT}:role/Deployer"
execution_role_arn = "arn:aws:iam::{ACCOUNT}:role/Executor"
termination_protection = true
''',
    ),
)


@pytest.fixture(scope="module")
def ruled() -> Template:
    return template(*EVERYTHING, *RULES)


def test_every_role_has_boundary_path_and_its_own_name(ruled: Template) -> None:
    roles = ruled.of_type("AWS::IAM::Role")
    assert len(roles) > 8
    for name, role in roles.items():
        properties = role["Properties"]
        assert properties.get("PermissionsBoundary") == BOUNDARY, name
        assert properties.get("Path") == "/teams/inference/", name
        assert properties["RoleName"].startswith("ml-qwen3-specdec-us-east-2-"), name
        assert len(properties["RoleName"]) <= 64, name
    assert len({role["Properties"]["RoleName"] for role in roles.values()}) == len(roles)


def test_every_instance_profile_and_managed_policy_has_the_path(ruled: Template) -> None:
    for kind in ("AWS::IAM::InstanceProfile", "AWS::IAM::ManagedPolicy"):
        for name, resource in ruled.of_type(kind).items():
            assert resource["Properties"].get("Path") == "/teams/inference/", name


def test_every_log_group_has_the_key(ruled: Template) -> None:
    groups = ruled.of_type("AWS::Logs::LogGroup")
    assert len(groups) > 5
    assert {name: group["Properties"].get("KmsKeyId") for name, group in groups.items()} == dict.fromkeys(
        groups, KEY
    )


def test_bucket_and_secrets_use_the_key_and_none_is_made(ruled: Template) -> None:
    (encryption,) = ruled.only("AWS::S3::Bucket")["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"] == {"KMSMasterKeyID": KEY, "SSEAlgorithm": "aws:kms"}
    assert encryption["BucketKeyEnabled"] is True
    (secrets,) = ruled.only("AWS::EKS::Cluster")["EncryptionConfig"]
    assert secrets["Provider"] == {"KeyArn": KEY}
    assert ruled.of_type("AWS::KMS::Key") == {}


@pytest.mark.parametrize("account", ["Server", "Stager", "Benchmark"])
def test_pods_may_use_the_key_and_nothing_else_of_it(ruled: Template, account: str) -> None:
    role = ruled.named(f"PodAccess{account}Role", "AWS::IAM::Role")
    statements = [
        statement
        for policy in ruled.of_type("AWS::IAM::Policy").values()
        if {"Ref": role} in policy["Properties"]["Roles"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    (used,) = [statement for statement in statements if "kms" in json.dumps(statement["Action"])]
    assert (used["Action"], used["Resource"]) == (list(KEY_ACTIONS), KEY)


def test_required_tags_are_on_instances_and_volumes_too(ruled: Template) -> None:
    for name, launch in ruled.of_type("AWS::EC2::LaunchTemplate").items():
        for tagged in launch["Properties"]["LaunchTemplateData"]["TagSpecifications"]:
            assert {"Key": "data-class", "Value": "internal"} in tagged["Tags"], name


def test_who_looks_may_change_nothing() -> None:
    viewer = f"arn:aws:iam::{ACCOUNT}:role/Viewer"
    found = template(("[capacity]", f'[cluster]\nviewer_principal_arns = ["{viewer}"]\n\n[capacity]'))
    (entry,) = [
        entry["Properties"]
        for entry in found.of_type("AWS::EKS::AccessEntry").values()
        if entry["Properties"]["PrincipalArn"] == viewer
    ]
    (policy,) = entry["AccessPolicies"]
    assert "AmazonEKSViewPolicy" in json.dumps(policy["PolicyArn"])
    assert policy["AccessScope"] == {"Type": "cluster"}


def test_the_assembly_names_account_and_roles(tmp_path: Path) -> None:
    text = DEFAULT
    for old, new in RULES:
        text = text.replace(old, new)
    app = new_app(outdir=str(tmp_path), validate=False)
    add_stacks(app, parse(text))
    app.synth()
    artifact = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))["artifacts"][
        "qwen3-specdec-us-east-2"
    ]
    assert artifact["environment"] == f"aws://{ACCOUNT}/{REGION}"
    properties = artifact["properties"]
    assert properties["assumeRoleArn"] == f"arn:aws:iam::{ACCOUNT}:role/Deployer"
    assert properties["cloudFormationExecutionRoleArn"] == f"arn:aws:iam::{ACCOUNT}:role/Executor"
    assert properties["terminationProtection"] is True
    assert "ourteam" in properties["bootstrapStackVersionSsmParameter"]


def test_without_rules_nothing_of_them_is_there() -> None:
    plain = template()
    for role in plain.of_type("AWS::IAM::Role").values():
        assert not {"PermissionsBoundary", "Path", "RoleName"} & role["Properties"].keys()
    assert all(
        "KmsKeyId" not in group["Properties"] for group in plain.of_type("AWS::Logs::LogGroup").values()
    )


def test_the_boundary_is_asked_about_every_action_that_we_grant(ruled: Template) -> None:
    text = DEFAULT
    for old, new in (*EVERYTHING, *RULES):
        text = text.replace(old, new)
    asked = set(needed_actions(parse(text), REGION))
    ours = ruled.of_type("AWS::IAM::Policy")
    granted = {
        action
        for name, policy in ours.items()
        if name.startswith(("PodAccess", "ScaleDown"))
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }
    granted |= {
        action
        for name, role in ruled.of_type("AWS::IAM::Role").items()
        if name.startswith("CustomVpcRestrictDefaultSG")
        for policy in role["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        for action in statement["Action"]
    }
    assert granted - asked == set()
    assert set(NEEDED) <= asked


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('id = "1234"', "account.id"),
        ('role_path = "teams/"', "account.role_path"),
        ('permissions_boundary = "Boundary"', "account.permissions_boundary"),
        (
            'id = "999999999999"\npermissions_boundary = "arn:aws:iam::111122223333:policy/B"',
            "account.permissions_boundary",
        ),
        ('tags = { owner = "me" }', "account.tags.owner"),
        ('deploy_role_arn = "arn:aws:iam::111122223333:user/me"', "account.deploy_role_arn"),
    ],
)
def test_a_wrong_rule_is_named(line: str, field: str) -> None:
    with pytest.raises(BadInputError, match=re.escape(field)):
        parse(f"{DEFAULT}\n[account]\n{line}\n")


def test_a_key_of_another_region_is_named() -> None:
    text = DEFAULT.replace('zone = "us-east-2b"', f'zone = "us-east-2b"\nkms_key_arn = "{KEY}"')
    assert parse(text).placement[REGION].kms_key_arn == KEY
    with pytest.raises(BadInputError, match="another region"):
        parse(text.replace(f":kms:{REGION}:", ":kms:eu-west-1:"))
