"""Prompts that the services cannot take are refused before a run; near misses pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdec.benchmark.plan import Plan
from specdec.errors import BadInputError
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
