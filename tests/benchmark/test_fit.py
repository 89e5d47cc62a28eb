"""Prompts that the services cannot take are refused before a run; near misses pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from charts.llmperf import LlmPerf
from specdec.benchmark.plan import Plan
from specdec.cli import cli
from specdec.commands.run import with_changes
from specdec.commands.workload import workload_of
from specdec.errors import BadInputError, EnvironmentFault
from specdec.experiment.prompt_fit import most_tokens
from specdec.experiment.reading import load
from specdec.prompts import sets

EXPERIMENT = load(Path(__file__).parents[2] / "experiment.toml")
URLS = {"baseline": "http://127.0.0.1:1", "speculative": "http://127.0.0.1:2"}


def plan(folder: Path, **prompt: object) -> Plan:
    (folder / "p.jsonl").write_text(json.dumps({"prompt": "x", **prompt}) + "\n", encoding="utf-8")
    benchmark = EXPERIMENT.benchmark.model_copy(update={"prompts": "p.jsonl"})
    return Plan.from_experiment(EXPERIMENT.model_copy(update={"benchmark": benchmark}), URLS, base=folder)


# 1024 less 600 of output, a window of 7 and 32 of template leave 385 tokens: 770 bytes of text, 385 digits.
@pytest.mark.parametrize(
    ("text", "output", "fits"),
    [
        ("a" * 770, None, True),
        ("a" * 772, None, False),
        ("7" * 385, None, True),
        ("7" * 386, None, False),
        ("é" * 385, None, True),
        ("é" * 387, None, False),
        ("a" * 1600, 100, True),
        ("short", 980, True),
        ("short", 990, False),
    ],
)
def test_length(text: str, output: int | None, fits: bool, tmp_path: Path) -> None:
    more = {} if output is None else {"output_tokens": output}
    if fits:
        plan(tmp_path, prompt=text, **more)
        return
    with pytest.raises(BadInputError, match="may not fit"):
        plan(tmp_path, prompt=text, **more)


def test_a_prompts_own_temperature_is_no_way_around(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="compiled to decode greedily"):
        plan(tmp_path, temperature=0.7)
    plan(tmp_path, temperature=0.0)


@pytest.mark.parametrize("name", [name for name in sets.SHIPPED if name != "long"])
def test_the_shipped_prompts_fit(name: str) -> None:
    assert all(most_tokens(prompt) + 600 + 7 <= 1024 for prompt in sets.load(name))


def test_long_prompts_ask_for_a_longer_context() -> None:
    benchmark = EXPERIMENT.benchmark.model_copy(update={"prompts": "long"})
    with pytest.raises(BadInputError, match="may not fit"):
        Plan.from_experiment(EXPERIMENT.model_copy(update={"benchmark": benchmark}), URLS)


FILE = str(Path(__file__).parents[2] / "experiment.toml")


def benched(*options: str) -> None:
    """``bench`` with the experiment at servers that are not there: what fits gets as far as asking them."""
    targets = [part for name, url in URLS.items() for part in ("--target", f"{name}={url}")]
    given = ["bench", "--experiment", FILE, *targets, *options]
    result = CliRunner().invoke(cli, given, standalone_mode=False)
    assert result.exception is not None
    raise result.exception


def own(path: Path) -> Any:
    benchmark = EXPERIMENT.benchmark.model_copy(update={"prompts": str(path)})
    return EXPERIMENT.model_copy(update={"benchmark": benchmark})


def charted(path: Path) -> None:
    import cdk8s

    region = EXPERIMENT.regions[0]
    app, experiment = cdk8s.App(), own(Path(path.name))
    LlmPerf(app, "c", experiment=experiment, region=region, bucket="b", base=path.parent)


WAYS: dict[str, Callable[[Path], object]] = {
    "a plan": lambda path: Plan.from_experiment(own(path), URLS),
    "bench": lambda path: benched("--prompts", str(path)),
    "check and estimate": lambda path: workload_of(own(path)),
    "run": lambda path: with_changes(EXPERIMENT, {"prompts": str(path)}),
    "a deployment": charted,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ({"prompt": "a" * 772}, "may not fit"),
        ({"prompt": "x", "temperature": 0.7}, "compiled to decode greedily"),
        ({"prompt": "a" * 770}, None),
        ({"prompt": "x", "temperature": 0.0}, None),
    ],
)
def test_every_way_by_which_prompts_meet_an_experiment(
    way: str, prompt: dict[str, Any], problem: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(prompt) + "\n", encoding="utf-8")
    if problem is not None:
        with pytest.raises(BadInputError, match=problem):
            WAYS[way](path)
        return
    if way == "bench":
        with pytest.raises(EnvironmentFault, match="no server at"):
            WAYS[way](path)
    else:
        WAYS[way](path)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--temperature", "0.7"), "compiled to decode greedily"),
        (("--output-tokens", "1000"), r"does not fit serving\.max_model_len"),
    ],
)
def test_options_of_bench_are_held_against_the_experiment(options: tuple[str, str], problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        benched(*options)


def test_options_of_run_are_held_against_the_experiment() -> None:
    with pytest.raises(BadInputError, match=r"does not fit serving\.max_model_len"):
        with_changes(EXPERIMENT, {"output_tokens": 1000})
    with pytest.raises(BadInputError, match="max_num_seqs"):
        with_changes(EXPERIMENT, {"concurrency": 500})
    assert with_changes(EXPERIMENT, {"output_tokens": 500}).benchmark.output_tokens == 500
