"""Prompts of a wanted length, and runs of a wanted duration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from charts.own_prompts import prompt_file
from scripts.hostile_command import specdec
from scripts.hostile_server import serving
from specdec.errors import BadInputError
from specdec.prompts.sets import load


@pytest.mark.parametrize(("wanted", "shared"), [(32, 0), (512, 256), (4096, 3000)])
def test_prompts_have_the_length_and_the_prefix_that_is_wanted(wanted: int, shared: int) -> None:
    prompts = load(f"synthetic:input={wanted},output=77,shared={shared},count=5")
    words = [prompt.text.split() for prompt in prompts]
    assert {len(own) for own in words} == {wanted}
    alike = [len(set(place)) == 1 for place in zip(*words, strict=True)]
    assert alike.index(False) in range(shared, shared + 4)
    assert len({prompt.text for prompt in prompts}) == len({prompt.id for prompt in prompts}) == 5
    assert {prompt.output_tokens for prompt in prompts} == {77}
    assert load(f"synthetic:input={wanted},output=77,shared={shared},count=5") == prompts
    assert load(f"synthetic:input={wanted},output=77,shared={shared},count=5,seed=2") != prompts


def test_a_synthetic_set_is_no_file_of_the_pod() -> None:
    assert len(load("synthetic:")) == 16
    assert prompt_file("synthetic:count=4") is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("synthetic:inputs=5", "is not a field"),
        ("synthetic:input=0", "within 16"),
        ("synthetic:input=-5", "within 16"),
        ("synthetic:input=1e3", "within 16"),
        ("synthetic:input=99999999999999999999", "within 16"),
        ("synthetic:count=²", "within 1"),
        ("synthetic:input=100,shared=100", "no word of its own"),
        ("synthetic:nonsense", "is not a field"),
    ],
)
def test_what_is_no_synthetic_set(name: str, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        load(name)


def test_a_run_ends_by_the_clock_and_asks_every_prompt_once(tmp_path: Path) -> None:
    short = ("--warmup", "0", "--output-tokens", "4", "--concurrency", "1")
    with serving() as server:
        targets = ("--target", f"{server.url}/a", "--target", f"{server.url}/b")
        for folder, minutes in (("short", "1e-7"), ("long", "0.02")):
            (tmp_path / folder).mkdir()
            prompts = ("--prompts", "synthetic:input=20,output=4,count=3", "--minutes", minutes)
            done = specdec("bench", *targets, *short, *prompts, cwd=tmp_path / folder)
            assert done.returncode == 0, done.stderr
    counts = {
        folder: json.loads(next((tmp_path / folder).glob("runs/*/manifest.json")).read_text())["counts"]
        for folder in ("short", "long")
    }
    assert counts["short"] == {"baseline": {"ok": 3}, "speculative": {"ok": 3}}
    assert counts["long"]["baseline"] == counts["long"]["speculative"]
    assert 3 < counts["long"]["baseline"]["ok"] < 3000


@pytest.mark.parametrize(
    "options", [("--repeats", "2"), ("--load", "1,2"), ("--rate", "1,2"), ("--minutes", "nan")]
)
def test_what_contradicts_a_duration(options: tuple[str, ...], tmp_path: Path) -> None:
    done = specdec("bench", "--target", "http://127.0.0.1:9", "--minutes", "1", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
