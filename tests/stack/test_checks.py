"""What a user can get wrong about the stack, and what the message says."""

import subprocess
import sys
from pathlib import Path

import pytest
from cfnlint.helpers import REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER
from cfnlint.schema._exceptions import ResourceNotFoundError

from specdec.catalog.regions import WITHOUT_BUDGETS
from specdec.errors import BadInputError, Mistake
from specdec.experiment.reading import parse
from tests.stack.synthesis import DEFAULT, ROOT


def mistakes(text: str) -> dict[str, Mistake]:
    with pytest.raises(BadInputError) as caught:
        parse(text)
    return {mistake.field: mistake for mistake in caught.value.mistakes}


CLUSTER = ("[capacity]", "[cluster]\n{}\n\n[capacity]")
PLACEMENT = ("[placement.us-east-2]", "[placement.us-east-2]\n{}")
GUARDS = ("[capacity]", "[guards]\n{}\n\n[capacity]")
CAPACITY = ("[capacity]", "[capacity]\n{}")
SERVING = ("[serving]", "[serving]\n{}")
TAGS = ("[capacity]", "[tags]\n{}\n\n[capacity]")


@pytest.mark.parametrize(
    ("place", "line", "field", "says"),
    [
        (CLUSTER, 'vpc_cidr = "10.42.0.0/24"', "cluster.vpc_cidr", "/16 to /22"),
        (CLUSTER, 'vpc_cidr = "8.8.0.0/16"', "cluster.vpc_cidr", "private range"),
        (CLUSTER, 'vpc_cidr = "10.42.0.1/16"', "cluster.vpc_cidr", "host bits"),
        (
            CLUSTER,
            'public_access_cidrs = ["0.0.0.0/0"]',
            "cluster.public_access_cidrs[0]",
            "internet at large",
        ),
        (
            CLUSTER,
            'public_access_cidrs = ["128.0.0.0/1"]',
            "cluster.public_access_cidrs[0]",
            "internet at large",
        ),
        (CLUSTER, 'public_access_cidrs = ["10.0.0.0/8"]', "cluster.public_access_cidrs[0]", "EKS refuses"),
        (CLUSTER, 'public_access_cidrs = ["203.0.113.7"]\nvpc_cidr = "x"', "cluster.vpc_cidr", ""),
        (CLUSTER, 'public_access_cidrs = ["::/0"]', "cluster.public_access_cidrs[0]", "IPv4"),
        (
            CLUSTER,
            'admin_principal_arns = ["arn:aws:sts::111122223333:assumed-role/A/b"]',
            "cluster.admin_principal_arns[0]",
            "IAM role",
        ),
        (
            CLUSTER,
            f"admin_principal_arns = {['arn:aws:iam::111122223333:role/A'] * 2}",
            "cluster.admin_principal_arns[1]",
            "twice",
        ),
        (
            CLUSTER,
            'admin_principal_arns = ["arn:aws:iam::111122223333:role/A"]\n'
            'viewer_principal_arns = ["arn:aws:iam::111122223333:role/A"]',
            "cluster.viewer_principal_arns[0]",
            "twice",
        ),
        (
            CLUSTER,
            'addon_versions = { core-dns = "v1.12.1-eksbuild.2" }',
            "cluster.addon_versions.core-dns",
            "coredns",
        ),
        (
            CLUSTER,
            'addon_versions = { coredns = "latest" }',
            "cluster.addon_versions.coredns",
            "describe-addon-versions",
        ),
        (
            PLACEMENT,
            'zones = ["us-east-2a", "us-east-2c"]',
            "placement.us-east-2.zone",
            "us-east-2a, us-east-2c",
        ),
        (PLACEMENT, 'zones = ["us-east-2b"]', "placement.us-east-2.zones", "needs two"),
        (
            PLACEMENT,
            'zones = ["us-east-2b", "us-west-2b"]',
            "placement.us-east-2.zones",
            "not a zone of us-east-2",
        ),
        (PLACEMENT, 'zones = ["us-east-2b", "us-east-2b"]', "placement.us-east-2.zones", "twice"),
        (PLACEMENT, 'bucket = "Not_A_Bucket"', "placement.us-east-2.bucket", ""),
        (GUARDS, "monthly_budget_usd = 100.0", "guards.monthly_budget_usd", "guards.notify"),
        (GUARDS, 'notify = "nobody"', "guards.notify", "neither an e-mail address"),
        (
            GUARDS,
            'notify = "arn:aws:sns:eu-west-1:111122223333:x"',
            "guards.notify",
            "us-east-2 cannot call it",
        ),
        (GUARDS, 'scale_down_at = "2026-02-30T20:00:00"', "guards.scale_down_at", "not a time"),
        (GUARDS, "scale_down_every_hours = -1", "guards.scale_down_every_hours", ""),
        (CAPACITY, "max_nodes = 0", "capacity.max_nodes", ""),
        (SERVING, 'neighbours = "devicegroup"', "serving.neighbours", "nodes with EFA only"),
        (TAGS, 'owner = "me"', "tags.owner", "taken"),
        (TAGS, 'team = "a?b"', "tags.team", "value of a tag"),
        (TAGS, '"aws:x" = "y"', "tags.aws:x", "taken"),
    ],
)
def test_one_mistake(place: tuple[str, str], line: str, field: str, says: str) -> None:
    old, new = place
    found = mistakes(DEFAULT.replace(old, new.format(line)))
    assert says in str(found[field])
    assert found[field].remedy


def test_an_unknown_region_is_refused_with_the_known_ones_unless_it_is_meant() -> None:
    elsewhere = DEFAULT.replace("us-east-2", "eu-north-1")
    assert "us-east-2" in mistakes(elsewhere)["regions"].remedy
    meant = elsewhere.replace("[capacity]", "[capacity]\nallow_unlisted_region = true")
    assert "describe-availability-zones" in mistakes(meant)["placement.eu-north-1.zones"].remedy
    named = meant.replace('zone = "', 'zones = ["eu-north-1c", "eu-north-1b"]\nzone = "')
    assert parse(named).zones("eu-north-1") == ("eu-north-1c", "eu-north-1b")


def test_a_budget_where_cloudformation_has_none() -> None:
    guards = '[guards]\nmonthly_budget_usd = 1.0\nnotify = "a@example.com"\n\n[capacity]'
    text = DEFAULT.replace("[capacity]", guards)
    parse(text)
    assert (
        "ap-south-2" in mistakes(text.replace("us-east-2", "ap-south-2"))["guards.monthly_budget_usd"].problem
    )


def test_the_regions_without_budgets_are_those_of_the_linters_schemas() -> None:
    without: set[str] = set()
    for region in REGIONS:
        try:
            PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, "AWS::Budgets::Budget")
        except ResourceNotFoundError:
            without.add(region)
    assert without == WITHOUT_BUDGETS


def test_a_word_that_is_no_region_is_refused_even_then() -> None:
    text = DEFAULT.replace("us-east-2", "ohio").replace(
        "[capacity]", "[capacity]\nallow_unlisted_region = true"
    )
    assert "not the name of an AWS region" in mistakes(text)["regions"].problem


def test_the_app_reports_all_mistakes_at_once_and_ends_with_2(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(
        DEFAULT.replace('"on-demand"', '"capacity-block"')
        .replace("desired_nodes = 0", "desird_nodes = 1")
        .replace("[serving]", '[cluster]\npublic_access_cidrs = ["0.0.0.0/0"]\n\n[serving]')
    )
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "CDK_CONTEXT_JSON": f'{{"experiment": "{wrong}"}}',
    }
    found = subprocess.run(
        [sys.executable, ROOT / "app.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 2
    assert "Traceback" not in found.stderr
    for field in (
        "capacity.desird_nodes",
        "placement.us-east-2.reservation_id",
        "cluster.public_access_cidrs[0]",
    ):
        assert field in found.stderr
    assert not list(tmp_path.glob("**/*.template.json"))
