"""Workflows cannot run here, so what can be known of them is held by tests."""

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from scripts.estimate_difference import table
from specdec.cli import cli
from specdec.deployed.markers import markers
from specdec.experiment.reading import load
from specdec.operate.nodes import Step
from specdec.serving.limits import run_seconds

ROOT = Path(__file__).parents[2]
FILES = sorted(
    [*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "examples" / "workflows").glob("*.yml")]
)
PINNED = re.compile(r"^\s*- uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def jobs(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]


def scripts(path: Path) -> list[str]:
    return [step["run"] for job in jobs(path).values() for step in job["steps"] if "run" in step]


def test_there_are_workflows_of_both_kinds() -> None:
    assert len(FILES) >= 5


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_by_digest(path: Path) -> None:
    uses = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert [line for line in uses if not PINNED.match(line)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_permissions_are_stated_and_each_job_ends(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    for name, job in workflow["jobs"].items():
        allowed = job.get("permissions", workflow["permissions"])
        assert isinstance(allowed, dict), f"{name}: every permission by its name"
        assert job["timeout-minutes"] <= 600, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_scripts_are_sound(path: Path, tmp_path: Path) -> None:
    for script in scripts(path):
        # What a stranger can write, such as a branch name, comes by the environment, never into the text.
        assert "${{" not in script
        (tmp_path / "step.sh").write_text("#!/bin/bash -e\n" + script, encoding="utf-8")
        checked = subprocess.run(
            [Path(sys.executable).parent / "shellcheck", tmp_path / "step.sh"], capture_output=True, text=True
        )
        assert checked.returncode == 0, checked.stdout


def pipes(script: str) -> bool:
    """Whether a script has a pipe of the shell; one in single quotes is of another language, such as jq's."""
    code = re.sub(r"(?m)^\s*#.*$", "", script)
    return re.search(r"(?<!\|)\|(?!\|)", re.sub(r"'[^']*'", "", code)) is not None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_failure_before_a_pipe_fails_the_step(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    if any(pipes(script) for script in scripts(path)):
        # GitHub runs a step without a named shell by `bash -e`, and with `shell: bash` by `-eo pipefail`.
        assert workflow.get("defaults", {}).get("run", {}).get("shell") == "bash"


def test_a_pipe_would_be_seen() -> None:
    assert pipes('specdec check 2>&1 | tee -a "$GITHUB_STEP_SUMMARY"')
    assert not pipes("jq -r 'map(.a) | .[0]' runs.json || status=$?\n# a | b")
    assert any(pipes(script) for path in FILES for script in scripts(path))


def test_the_deployment_waits_for_every_model() -> None:
    deploy = ROOT / "examples" / "workflows" / "deploy.yml"
    steps = [script for script in scripts(deploy) if "nodes " in script]
    assert "status.json" in steps[0]
    assert "nodes up" in steps[1]
    prefixes = set(re.findall(r'\.name \| startswith\("(\w+)"\)', steps[0]))
    experiment = load(ROOT / "experiment.toml")
    waited = [what for what in markers(experiment) if what.startswith(tuple(prefixes))]
    assert len(waited) == len(experiment.loaded_models) > 0
    assert '.state == "done"' in steps[0]
    assert {"name", "state"} <= Step("weights", "done", "", None, "S3").plain().keys()


def test_nodes_start_only_for_a_benchmark_that_will_run() -> None:
    """A Job runs once: after a deployment that changed nothing, a node would be paid for no run."""
    (script,) = [one for one in scripts(ROOT / "examples" / "workflows" / "deploy.yml") if "nodes up" in one]
    asked, _, _ = script.partition("nodes up")
    assert '.name == "benchmark" and .state == "waiting"' in asked
    assert script.index("else") > script.index("specdec wait")


@pytest.mark.parametrize("name", ["deploy.yml", "weekly.yml"])
def test_nodes_are_stopped_by_a_job_of_its_own(name: str) -> None:
    """A runner that ends the measuring job after its own limit runs none of that job's later steps."""
    every = jobs(ROOT / "examples" / "workflows" / name)
    starting = [one for one, job in every.items() if "nodes up" in str(job["steps"])]
    stopping = [one for one, job in every.items() if "nodes down" in str(job["steps"])]
    assert len(starting) == len(stopping) == 1
    assert starting != stopping
    stop = every[stopping[0]]
    assert starting[0] in stop["needs"]
    assert stop["if"].startswith("always()")


@pytest.mark.parametrize("name", ["deploy.yml", "weekly.yml"])
def test_a_wait_ends_before_its_job_and_its_credentials(name: str) -> None:
    """Else nothing would stop the nodes."""
    for job in jobs(ROOT / "examples" / "workflows" / name).values():
        text = "\n".join(step.get("run", "") for step in job["steps"])
        waits = [float(found) for found in re.findall(r"specdec wait .*--timeout-minutes (\d+)", text)]
        waits += [float(found) for found in re.findall(r"seq (\d+)", text)]
        if "specdec wait" not in text:
            continue
        (seconds,) = [
            step["with"]["role-duration-seconds"]
            for step in job["steps"]
            if "role-duration-seconds" in step.get("with", {})
        ]
        assert run_seconds(load(ROOT / "experiment.toml")) / 60 <= waits[0]
        assert sum(waits) + 15 <= job["timeout-minutes"] <= seconds / 60


def calls(script: str) -> Iterator[list[str]]:
    """The words behind each call of our command, up to the next pipe or redirection."""
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        starts = [place for place, word in enumerate(words) if Path(word).name == "specdec"]
        for start in starts:
            rest = list(
                itertools.takewhile(lambda word: word not in ("|", ">", "--", "&&"), words[start + 1 :])
            )
            # ``--project specdec`` names a folder.
            if words[start - 1] != "--project" and rest:
                yield rest


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_commands_and_options_exist(path: Path) -> None:
    for script in scripts(path):
        for words in calls(script):
            command: click.Command = cli
            for word in itertools.takewhile(lambda word: not word.startswith("-"), words):
                if isinstance(command, click.Group):
                    found = command.get_command(click.Context(command), word)
                    assert found is not None, f"no command {word}: {words}"
                    command = found
            known = {option for parameter in command.params for option in parameter.opts} | {"--version"}
            assert {word for word in words if word.startswith("--")} <= known, words


def test_a_wrong_option_would_be_seen() -> None:
    assert list(calls('uv run --project specdec specdec nodes up --x "$R" | tee y')) == [
        ["nodes", "up", "--x", "$R"]
    ]


def estimate(**hourly: float) -> dict[str, Any]:
    items = [{"name": name, "count": 2, "usd_per_hour": price} for name, price in hourly.items()]
    return {"items": items, "usd_per_hour": sum(2 * price for price in hourly.values())}


def test_the_cost_difference_names_what_changed() -> None:
    said = table(estimate(nodes=36.0, disk=0.1), estimate(nodes=18.0, disk=0.1, key=0.5))
    assert said.splitlines()[0] == "**-35.00 USD an hour**, 37.20 in all while the nodes are up."
    assert "| nodes | 72 USD | 36 USD |" in said
    assert "| key | - | 1 USD |" in said
    assert "disk" not in said


def test_an_equal_cost_is_said() -> None:
    assert table(estimate(nodes=1.0), estimate(nodes=1.0)).startswith(
        "The experiment costs what it did: 2.00"
    )
