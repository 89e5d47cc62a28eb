"""Zones, address range, access and a shared bucket, each as the check names it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from specdec.experiment.reading import load
from specdec.preflight import capacity, placing
from specdec.preflight.finding import Scope
from specdec.preflight.store import judge_shared

ROOT = Path(__file__).parents[2]
ROLE = "arn:aws:iam::111122223333:role/Admin"
OWNED = {"aws:cloudformation:stack-name": "other", "aws-cdk:auto-delete-objects": "true"}


@pytest.mark.parametrize(
    ("offered", "level"),
    [(["us-east-2a", "us-east-2b"], "ok"), (["us-east-2a"], "blocker"), ([], "blocker")],
)
def test_the_control_planes_zones_must_offer_the_system_node(offered: list[str], level: str) -> None:
    found = placing.judge_zones(
        offered, wanted=("us-east-2a", "us-east-2b"), kind="m7i.2xlarge", region="us-east-2"
    )
    assert found.level == level
    assert level == "ok" or "us-east-2b" in found.what


def test_what_the_catalogue_guesses_of_an_instance_is_said_before_money_is_spent() -> None:
    def said(name: str) -> list[str]:
        scope = SimpleNamespace(experiment=load(ROOT / "examples" / f"{name}.toml"))
        return [found.what for found in capacity.guesses(cast("Scope", scope))]

    assert said("eagle3") == [], "trn2.48xlarge is what was published"
    pages, claim = said("five-dollars")
    assert "5120 MiB in 2 MiB pages" in pages
    assert "a claim of the one device" in claim


def test_the_range_of_a_network_that_exists_stays() -> None:
    assert placing.judge_range("10.42.0.0/16", wanted="10.42.0.0/16").level == "ok"
    found = placing.judge_range("10.42.0.0/16", wanted="10.43.0.0/16")
    assert found.level == "blocker"
    assert found.remedy is not None
    assert 'vpc_cidr = "10.42.0.0/16"' in found.remedy


def test_whoever_deploys_is_told_the_line_that_lets_them_in() -> None:
    found = placing.judge_access(ROLE, admins=(), caller="arn:aws:sts::111122223333:assumed-role/Admin/me")
    assert (found.level, found.remedy) == (
        "warning",
        f'Under [cluster]: admin_principal_arns = ["{ROLE}"]',
    )
    assert placing.judge_access(ROLE, admins=(ROLE,), caller=ROLE).level == "ok"


def test_a_bucket_that_another_stack_empties_is_refused() -> None:
    found = judge_shared(OWNED, bucket="b", stack="mine")
    assert found is not None
    assert (found.level, "stack other" in found.what) == ("blocker", True)
    assert judge_shared(OWNED, bucket="b", stack="other") is None
    assert judge_shared({"aws:cloudformation:stack-name": "other"}, bucket="b", stack="mine") is None
