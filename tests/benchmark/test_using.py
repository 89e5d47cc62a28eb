"""What a user of ``bench`` is told before and after a run, and what the run says of servers that are not the
experiment's.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.hostile_command import Done, specdec
from scripts.hostile_server import Server, http, serving
from specdec.benchmark.announcement import announcement, duration, seconds
from specdec.catalog.models import same_model
from specdec.golden.settings import Settings
from specdec.prompts.sets import Prompt, parse
from specdec.runs import command_line

from .conftest import MakePlan, Start

EXPERIMENT = Path(__file__).parents[2] / "experiment.toml"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


def bench(server: Server, folder: Path, *arguments: str) -> tuple[Done, dict[str, Any]]:
    (folder / "p.txt").write_text("one\ntwo\n")
    targets = ("--target", f"baseline={server.url}/a", "--target", f"speculative={server.url}/b")
    short = ("--repeats", "1", "--warmup", "0", "--output-tokens", "4", "--prompts", "p.txt")
    done = specdec("bench", *targets, *short, *arguments, cwd=folder)
    manifests = list(folder.glob("runs/*/manifest.json"))
    return done, json.loads(manifests[0].read_text()) if manifests else {}


def test_a_run_says_what_it_will_ask_and_ends_with_the_next_command(server: Server, tmp_path: Path) -> None:
    done, manifest = bench(server, tmp_path)
    lines = done.stderr.splitlines()
    assert lines[0].startswith("4 requests: 2 prompts in 1 test case to 2 targets")
    assert "if a token takes 10 to 50 ms" in lines[0]
    assert lines[-1] == f"next: specdec report runs/{manifest['run']}"
    assert specdec("report", f"runs/{manifest['run']}", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 2 * 4 * 12 * 0.01),
        ({"concurrency": 4}, 2 * 12 * 0.01),
        ({"concurrency": 4, "schedule": "concurrent"}, 12 * 0.01),
        ({"repeats": 3}, 2 * 12 * 12 * 0.01),
        ({"warmup": 2}, 2 * (4 + 2) * 12 * 0.01),
        ({"arrival": "constant", "rate": 0.5}, 2 * 4 / 0.5),
    ],
)
def test_about_how_long(changes: dict[str, Any], expected: float, make_plan: MakePlan) -> None:
    plan = make_plan({"a": "http://a", "b": "http://b"}, **{"concurrency": 1, **changes})
    assert seconds(plan, 0.01) == pytest.approx(expected)


def test_equal_prompts_are_told(make_plan: MakePlan) -> None:
    prompts: tuple[Prompt, ...] = parse("x\n" * 6, source="p.txt")
    assert "5 prompts of the file left out" in announcement(make_plan({"a": "http://a"}, prompts=prompts))


def test_durations() -> None:
    assert [duration(time) for time in (0.2, 45, 600, 9000)] == ["1 s", "45 s", "10 min", "2.5 h"]


def test_a_foreign_server_gets_nothing_from_the_experiment(server: Server, tmp_path: Path) -> None:
    _, manifest = bench(server, tmp_path, "--experiment", str(EXPERIMENT))
    assert {name: variant["model"] for name, variant in manifest["variants"].items()} == {
        "baseline": "m",
        "speculative": "m",
    }
    for variant in manifest["variants"].values():
        assert (variant["mode"], variant["draft"], variant["window"]) == (None, None, None)
    report = specdec("report", cwd=tmp_path)
    assert "baseline is served by the model m, not by the experiment's" in " ".join(report.stdout.split())
    page = next(tmp_path.glob("runs/*/report.md")).read_text()
    assert "Qwen3-1.7B" not in page.split("Configuration")[0]
    numbers = json.loads(next(tmp_path.glob("runs/*/report.json")).read_text())["numbers"]
    assert not [number for number in numbers if "usd" in json.dumps(number).lower()]
    tune = specdec("tune", cwd=tmp_path)
    assert tune.returncode == 1
    assert "window of speculative is not known; give it with --window speculative=K" in tune.stderr
    given = specdec("tune", "--window", "speculative=7", cwd=tmp_path)
    assert "is not known" not in given.stderr
    wrong = specdec("tune", "--window", "fast=7", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "Write NAME=K with one of speculative" in wrong.stderr


@pytest.mark.parametrize("name", ["Qwen/Qwen3-32B", "/models/qwen3-32b/"])
def test_a_server_of_the_experiments_model_keeps_it(name: str, server: Server, tmp_path: Path) -> None:
    server.models = http(json.dumps({"data": [{"id": name}]}).encode())
    _, manifest = bench(server, tmp_path, "--experiment", str(EXPERIMENT))
    assert manifest["variants"]["speculative"]["window"] == 7
    assert "not by the experiment's" not in specdec("report", cwd=tmp_path).stdout


def test_same_model() -> None:
    assert same_model("Qwen3-32B", "Qwen/Qwen3-32B")
    assert not same_model("Qwen3-32B-AWQ", "Qwen/Qwen3-32B")


def test_a_window_and_a_price_without_an_experiment(server: Server, tmp_path: Path) -> None:
    _, manifest = bench(server, tmp_path, "--window", "speculative=7", "--usd-per-hour", "12.5")
    assert manifest["variants"]["speculative"]["window"] == 7
    assert manifest["variants"]["baseline"]["window"] is None
    report = specdec("report", cwd=tmp_path)
    assert report.returncode == 0
    page = next(tmp_path.glob("runs/*/report.md")).read_text()
    assert "$12.5 per hour" in page
    assert "Cost of a million output tokens" in page
    assert "A million output tokens cost, by test case: $" in report.stdout


def test_servers_may_cost_differently(server: Server, tmp_path: Path) -> None:
    _, manifest = bench(server, tmp_path, "--usd-per-hour", "10", "--usd-per-hour", "speculative=30")
    assert manifest["environment"]["server_usd_per_hour"] == {"baseline": 10.0, "speculative": 30.0}

    def costs(*more: str) -> dict[str, float]:
        shown = specdec("report", "--json", *more, cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        numbers = json.loads(shown.stdout)["numbers"]
        own = [number for number in numbers if number["key"].startswith("share_usd/")]
        return {number["key"].split("/")[1]: number["value"] for number in own}

    before, after = costs(), costs("--usd-per-hour", "speculative=60")
    assert after["baseline"] == before["baseline"]
    assert after["speculative"] == pytest.approx(2 * before["speculative"])
    page = next(tmp_path.glob("runs/*/report.md")).read_text().replace("\\", "")
    assert "(baseline): $10 per hour" in page
    assert "(speculative): $60 per hour" in page
    refused = specdec("report", "--usd-per-hour", "other=3", cwd=tmp_path)
    assert refused.returncode == 2
    assert "names no target" in refused.stderr


@pytest.mark.parametrize(
    "window", ["7", "baseline=7", "other=7", "speculative=0", "speculative=x", "speculative=²"]
)
def test_what_is_no_window(window: str, server: Server, tmp_path: Path) -> None:
    done, manifest = bench(server, tmp_path, "--window", window)
    assert (done.returncode, manifest) == (2, {})
    assert "--window" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "--target", "http://a", "--rate", "nan"),
        ("bench", "--target", "http://a", "--temperature", "nan"),
        ("bench", "--target", "http://a", "--stall-seconds", "inf"),
        ("bench", "--target", "http://a", "--usd-per-hour", "inf"),
        ("bench", "--target", "http://a", "--output-tokens", "1" + "0" * 24),
        ("estimate", "--hours", "nan"),
        ("wait", "--timeout-minutes", "inf"),
        ("golden", "--step-ms", "nan"),
        ("tune", "--compile-hours", "-inf"),
    ],
)
def test_no_number_is_infinite(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = specdec(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_the_line_of_a_run_makes_it_again(start: Start, tmp_path: Path) -> None:
    _, url = start(Settings(ttft=0.005, step=0.001, path="/openai", key="a-secret-key"))
    (tmp_path / "p q.txt").write_text("one\ntwo\n")
    options = ("--prompts", "p q.txt", "--output-tokens", "4", "--load", "1,2", "--eos", "--seed", "3")
    secret = ("--api-key-env", "MY_KEY", "--api-key-header", "api-key", "--header", "X-Team: a-secret-team")
    key = {"MY_KEY": "a-secret-key"}
    arguments = ("bench", "--target", f"{url}/v1#golden", "--target", url, *options, *secret)
    done = specdec(*arguments, "--json", cwd=tmp_path, **key)
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["manifest"]
    line: str = first["environment"]["load"]["command"]
    assert "secret" not in line
    again = specdec(*shlex.split(line)[1:], "--json", cwd=tmp_path, **key)
    assert again.returncode == 0, again.stderr
    second = json.loads(again.stdout)["manifest"]
    assert second["configuration"] == first["configuration"]
    load = {"latest_send_seconds", "latest_token_seconds"}
    told = [
        {key: value for key, value in run["environment"]["load"].items() if key not in load}
        for run in (first, second)
    ]
    assert told[0] == told[1]
    page = specdec("report", first["run"], cwd=tmp_path)
    assert page.returncode == 0, page.stderr
    assert line in (tmp_path / "runs" / first["run"] / "report.md").read_text()
    refused = specdec(*arguments[:-6], cwd=tmp_path)
    assert refused.returncode != 0
    assert "--api-key-env names the variable" in refused.stderr


def test_the_line_that_goes_on_with_a_run() -> None:
    target, column, header = (
        ("--target", "a=http://h?key=***"),
        ("--prompt-column", "my text"),
        ("--header", "X: V"),
    )
    given = [target, ("--target", "b=http://b"), column, ("--insecure",), ("--repeats", "4"), header]
    needed = [("--resume", "runs/r 1"), target, column, ("--insecure",), header]
    line = command_line.resuming(command_line.joined(given), "runs/r 1")
    assert shlex.split(line) == ["specdec", "bench", *(word for option in needed for word in option)]
