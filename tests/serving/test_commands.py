"""``specdec stacks`` and ``specdec manifests``, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

import charts
from specdec.catalog.images import STACKS
from specdec.cli import cli
from specdec.errors import BadInputError
from specdec.experiment.reading import load
from tests.strict_schema import require_valid

EXPERIMENT = str(Path(__file__).parents[2] / "experiment.toml")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, catch_exceptions=True)


def test_manifests_prints_what_is_deployed_and_it_is_valid() -> None:
    result = call("manifests", "--experiment", EXPERIMENT, "--bucket", "mine")
    assert result.exit_code == 0, result.output
    printed = list(yaml.safe_load_all(result.stdout))
    built = charts.build(load(Path(EXPERIMENT)), region="us-east-2", bucket="mine")
    assert printed == [item for chart in built.values() for item in chart.to_json()]
    for item in printed:
        require_valid(item)


def test_one_chart_can_be_asked_for_and_listed() -> None:
    result = call("manifests", "--experiment", EXPERIMENT, "--chart", "qwen-vllm", "--list")
    assert [line.split()[1] for line in result.stdout.splitlines()] == [
        "ConfigMap",
        "Deployment",
        "Service",
        "NetworkPolicy",
    ]


def test_prompts_lie_beside_the_experiment_file_and_few_of_them_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        Path(EXPERIMENT).read_text(encoding="utf-8").replace('prompts = "classes"', 'prompts = "own.jsonl"')
    )
    (tmp_path / "experiment.toml").write_text(text, encoding="utf-8")
    line = '{"prompt": "List %s.", "test_case": "lists"}\n'
    (tmp_path / "own.jsonl").write_text(line % "planets" + line % "oceans", encoding="utf-8")
    monkeypatch.chdir("/")
    few = "warning: Too few prompts on lists: use at least 4 per test case"
    for name in ("manifests", "estimate"):
        result = call(name, "--experiment", str(tmp_path / "experiment.toml"))
        assert result.exit_code == 0, result.output
        assert few in result.stderr
        assert few not in result.stdout
    (tmp_path / "own.jsonl").write_text("".join(line % number for number in range(4)), encoding="utf-8")
    assert call("estimate", "--experiment", str(tmp_path / "experiment.toml")).stderr == ""


@pytest.mark.parametrize(("option", "value"), [("--chart", "qwen"), ("--region", "mars-1")])
def test_what_the_experiment_has_not_is_bad_input(option: str, value: str) -> None:
    result = call("manifests", "--experiment", EXPERIMENT, option, value)
    assert isinstance(result.exception, BadInputError)
    assert value in str(result.exception)


def test_the_table_of_stacks_shows_how_sure_each_mode_is() -> None:
    result = call("stacks")
    lines = result.stdout.splitlines()
    for stack, line in zip(STACKS.values(), lines[1:], strict=False):
        assert line.startswith(stack.name)
        assert all(f"{mode} ({support.evidence})" in line for mode, support in stack.modes.items())


def test_one_stack_is_shown_with_defects_and_sources() -> None:
    stack = STACKS["vllm-0.9.1-sdk-2.26.1"]
    result = call("stacks", stack.name)
    assert all(text in result.stdout for text in (stack.image, *stack.defects, *stack.sources))
    assert json.loads(call("stacks", stack.name, "--json").stdout)[0]["image"] == stack.image
    assert [each["name"] for each in json.loads(call("stacks", "--json").stdout)] == list(STACKS)
