"""The examples on the page for a platform team are experiments that synthesize."""

import json
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts.hostile_command import specdec
from specdec.experiment.endpoints import endpoints_of
from tests.stack.synthesis import DEFAULT, ROOT, Template, app_of, experiment, template

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "platform-team.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
PLACE = '[placement.us-east-2]\nzone = "us-east-2b" # the one zone of the trn2 node group\n'


def example(text: str) -> Template:
    """The default experiment with the example's tables, after the CDK's own validation."""
    assert PLACE in DEFAULT
    with tempfile.TemporaryDirectory() as folder:
        # Raises where a property does not match its schema, as for whoever pastes the example.
        app_of(experiment((PLACE, text)), outdir=folder, validate=True).synth()
        report = Path(folder) / "validation-report.json"
        said: list[dict[str, Any]] = (
            json.loads(report.read_text(encoding="utf-8"))["pluginReports"] if report.exists() else []
        )
        assert [each["violations"] for each in said if each["violations"]] == []
    return template((PLACE, text))


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 3
    tables = {name for text in EXAMPLES for name in tomllib.loads(text)}
    assert tables == {"account", "placement", "network"}


def test_the_first_follows_the_accounts_rules() -> None:
    made = example(EXAMPLES[0])
    assert made.of_type("AWS::EC2::VPC") == {}
    roles = [role["Properties"] for role in made.of_type("AWS::IAM::Role").values()]
    assert {role["PermissionsBoundary"] for role in roles} == {"arn:aws:iam::111122223333:policy/Boundary"}
    assert {role["Path"] for role in roles} == {"/teams/inference/"}


def test_the_second_makes_neither_cluster_nor_network_nor_way_out() -> None:
    made = example(EXAMPLES[1])
    assert made.of_type("AWS::EKS::Cluster") == made.of_type("AWS::EC2::VPC") == {}
    assert made.of_type("AWS::EKS::AccessEntry") == {}
    assert "public.ecr.aws/" not in str(
        [chart["Properties"]["Values"] for chart in made.of_type("Custom::AWSCDK-EKS-HelmChart").values()]
    )


def test_the_third_is_the_second_without_a_cluster() -> None:
    second, third = (tomllib.loads(text) for text in EXAMPLES[1:])
    place = second["placement"]["us-east-2"]
    own = {key: value for key, value in place.items() if not key.startswith(("cluster_", "kubectl_"))}
    assert third == {"placement": {"us-east-2": own}, "network": second["network"]}


def test_what_to_mirror_is_told_without_an_account(tmp_path: Path) -> None:
    made = DEFAULT.replace(PLACE, EXAMPLES[2])
    (tmp_path / "experiment.toml").write_text(made, encoding="utf-8")
    done = specdec("manifests", "--mirror", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    copies = [line.split() for line in done.stdout.splitlines() if line.startswith("crane copy ")]
    assert len(copies) == 5
    assert all(target.startswith("111122223333.dkr.ecr.us-east-2.") for *_, target in copies)
    made_before = [
        line.rpartition(" ")[2] for line in done.stdout.splitlines() if "create-repository" in line
    ]
    assert made_before == [target.partition("/")[2].rpartition(":")[0] for *_, target in copies]
    logins = [line for line in done.stdout.splitlines() if "crane auth login" in line]
    assert logins == [
        "aws ecr get-login-password --region us-east-2 | crane auth login --username AWS --password-stdin"
        " 111122223333.dkr.ecr.us-east-2.amazonaws.com"
    ]
    needed = endpoints_of(experiment((PLACE, EXAMPLES[2])))
    assert [f"# com.amazonaws.us-east-2.{name}" for name in needed] == done.stdout.splitlines()[
        -len(needed) :
    ]
    assert all(f"`{name}`" in PAGE for name in needed)
    (tmp_path / "experiment.toml").write_text(DEFAULT, encoding="utf-8")
    refused = specdec("manifests", "--mirror", cwd=tmp_path)
    assert refused.returncode == 2
    assert "network.image_prefix: names no mirror" in refused.stderr
