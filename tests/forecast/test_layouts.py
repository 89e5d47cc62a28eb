"""Logged answers in every layout, and what is wrong with some."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from specdec.errors import BadInputError
from specdec.forecast.answers import Sources
from specdec.forecast.layouts import read_file

ASKED = [{"role": "user", "content": "Hi"}]
USAGE = {"prompt_tokens": 31, "completion_tokens": 2}


def reply(text: str = "Hello", **more: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"choices": [choice | more], "usage": USAGE}


def read(tmp_path: Path, *entries: Any, text: str | None = None) -> Sources:
    path = tmp_path / "log.jsonl"
    path.write_text(text or "\n".join(json.dumps(entry) for entry in entries), encoding="utf-8")
    sources = Sources()
    read_file(path, sources)
    return sources


LAYOUTS: dict[str, Any] = {
    "ours": {"prompt": "Hi", "answer": "Hello", **USAGE},
    "OpenAI": {"request": {"messages": ASKED}, "response": reply()},
    "LiteLLM": {"messages": ASKED, "response": json.dumps(reply()), "model": "m"},
    "Langfuse": {
        "input": {"messages": ASKED},
        "output": {"role": "assistant", "content": "Hello"},
        "usageDetails": {"input": 31, "output": 2},
    },
    "ShareGPT": {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
    "messages": {"messages": [*ASKED, {"role": "assistant", "content": "Hello"}]},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_answer(layout: str, tmp_path: Path) -> None:
    sources = read(tmp_path, LAYOUTS[layout])
    (answer,) = sources.answers
    assert dict(sources.layouts) == {layout: 1}
    assert (answer.messages, answer.text) == ((("user", "Hi"),), "Hello")
    counted = None if layout in ("ShareGPT", "messages") else (31, 2)
    assert (answer.prompt_tokens and (answer.prompt_tokens, answer.completion_tokens)) == counted


def test_an_array_and_an_export_read_like_lines(tmp_path: Path) -> None:
    entries = [LAYOUTS["ours"], LAYOUTS["OpenAI"]]
    assert len(read(tmp_path, text=json.dumps(entries)).answers) == 2
    assert len(read(tmp_path, text=json.dumps({"data": entries}, indent=1)).answers) == 2


CALLS: dict[str, Any] = {"message": {"tool_calls": [{}], "content": None}}
UNUSABLE: list[tuple[Any, str]] = [
    ({"request": {"messages": ASKED, "tools": [{}]}, "response": reply()}, "tools in the request"),
    ({"request": {"messages": ASKED}, "response": {"choices": [{}, {}]}}, "several choices"),
    ({"request": {"messages": ASKED}, "response": {"choices": [CALLS]}}, "tool calls in the answer"),
    ({"request": {"messages": ASKED}, "response": reply("")}, "empty answer"),
    ({"what": "ever"}, "unknown layout"),
    ([1], "not an object"),
]


@pytest.mark.parametrize(("entry", "reason"), UNUSABLE)
def test_what_cannot_be_used_is_counted_and_named(entry: Any, reason: str, tmp_path: Path) -> None:
    sources = read(tmp_path, LAYOUTS["ours"], entry)
    assert len(sources.answers) == 1
    assert dict(sources.left_out) == {reason: 1}


def test_an_answer_cut_by_length_is_used_and_noted(tmp_path: Path) -> None:
    sources = read(tmp_path, {**LAYOUTS["ours"], "finish_reason": "length"})
    assert len(sources.answers) == 1
    assert [note.split(":")[0] for note in sources.notes] == ["cut by length"]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no entry of a known layout"):
        read(tmp_path, {"what": "ever"})
    with pytest.raises(BadInputError, match="line 2 is not JSON"):
        read(tmp_path, text=json.dumps(LAYOUTS["ours"]) + "\nnot json\n")


def logged(**request: Any) -> dict[str, Any]:
    content = [{"token": "Hel", "logprob": -0.5}, {"token": "lo", "logprob": -0.25}]
    return {
        "request": {"messages": ASKED, **request},
        "response": reply(logprobs={"content": content}),
    }


def test_logged_tokens_and_probabilities_are_read_where_they_are_those_drawn_with(tmp_path: Path) -> None:
    sources = read(tmp_path, logged(temperature=1), logged(temperature=0.7), logged(temperature=1, top_p=0.9))
    assert [answer.pieces for answer in sources.answers] == [("Hel", "lo")] * 3
    # The protocol gives them before temperature and top-p, so that they say nothing of other settings.
    assert [answer.logprobs for answer in sources.answers] == [(-0.5, -0.25), (), ()]
    ours = {"prompt": "Hi", "answer": "Hello", "temperature": 0.7, "top_p": 0.9, "logprobs": [-0.5, -0.25]}
    (answer,) = read(tmp_path, ours).answers
    assert (answer.temperature, answer.top_p, answer.logprobs) == (0.7, 0.9, (-0.5, -0.25))


def test_the_lines_of_the_page_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "forecast.md").read_text(encoding="utf-8")
    lines = page.split("```json\n")[1].split("```")[0]
    sources = read(tmp_path, text=lines)
    assert [answer.text for answer in sources.answers] == ["The Danube."] * len(lines.splitlines())
    assert not sources.left_out


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_a_batch_is_joined_as_the_page_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "forecast.md").read_text(encoding="utf-8")
    script = next(block.split("```")[0] for block in page.split("```sh\n") if block.startswith("jq "))
    ids = ("a", "b")
    requests = [{"custom_id": name, "body": {"model": "m", "messages": ASKED}} for name in ids]
    results = [{"custom_id": name, "response": {"status_code": 200, "body": reply(name)}} for name in ids]
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, requests)))
    (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, results[::-1])))
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True)
    sources = Sources()
    read_file(tmp_path / "answers.jsonl", sources)
    assert [answer.text for answer in sources.answers] == list(ids)
