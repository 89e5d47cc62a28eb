"""What a server tells of its context and template, before anything is measured."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from specdec.benchmark.plan import Plan, Target
from specdec.benchmark.run import run
from specdec.errors import BadInputError
from specdec.prompts.sets import Prompt
from tests.web import running

pytestmark = pytest.mark.slow

LENGTH = 200


@contextmanager
def vllm(
    tokens_a_word: int = 1, *, tokenize: bool = True, mark: int = 0, marks: list[int] | None = None
) -> Generator[str]:
    """Answers as vLLM does: context of 200 tokens, so many tokens a word. ``marks`` are the templates that
    its next starts have.
    """
    left = [mark] if marks is None else marks

    class Served(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

        def reply(self, content: Any, kind: str = "application/json") -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(200 if content else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            model = {"id": "toy", "owned_by": "vllm", "max_model_len": LENGTH}
            self.reply({"data": [model]} if self.path == "/v1/models" else {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            words = tokens_a_word * sum(len(turn["content"].split()) for turn in body["messages"])
            if self.path == "/tokenize":
                own = left.pop(0) if len(left) > 1 else left[0]
                self.reply({"count": words, "tokens": [own] * words} if tokenize else {})
            elif not body.get("stream"):
                self.reply({"usage": {"prompt_tokens": words}})
            else:
                text: dict[str, Any] = {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}
                usage: dict[str, Any] = {
                    "choices": [],
                    "usage": {"prompt_tokens": words, "completion_tokens": 1},
                }
                lines = "".join(f"data: {json.dumps(event)}\n\n" for event in (text, usage))
                self.reply(f"{lines}data: [DONE]\n\n".encode(), "text/event-stream")

    with running(Served) as url:
        yield url


def planned(url: str, *, words: int = 90, window: int | None = None) -> Plan:
    return Plan(
        run="r",
        experiment="e",
        configuration={},
        configuration_hash="",
        targets=(Target(variant="fast", url=url, role="speculative", window=window),),
        # Long words: the estimate from bytes is twice and more what the server counts.
        prompts=(Prompt(id="p", test_case="c", prompt_class="open", text="wordsworth " * words),),
        output_tokens=100,
        repeats=1,
        warmup=0,
        ignore_eos=False,
    )


@pytest.mark.parametrize("tokenize", [True, False])
def test_the_servers_count_decides_where_the_estimate_does_not_fit(tokenize: bool, tmp_path: Path) -> None:
    with vllm(tokenize=tokenize) as url:
        manifest = run(planned(url), tmp_path / "fits")
        assert manifest.status == "complete"
        assert manifest.variants["fast"].get("max_model_len") == LENGTH
        with pytest.raises(BadInputError, match=r"101 tokens, 100 of output.*max_model_len of 200"):
            run(planned(url, words=101), tmp_path / "over")
    assert not (tmp_path / "over").exists()


def test_the_window_is_written_ahead(tmp_path: Path) -> None:
    with vllm() as url:
        assert run(planned(url, words=93, window=7), tmp_path / "fits").status == "complete"
        with pytest.raises(BadInputError, match="beside its window of 7"):
            run(planned(url, words=94, window=7), tmp_path / "over")


def test_the_template_is_recorded(tmp_path: Path) -> None:
    told: list[str | None] = []
    for number, mark in enumerate((1, 1, 2)):
        with vllm(mark=mark) as url:
            manifest = run(planned(url), tmp_path / str(number))
        told.append(manifest.variants["fast"].get("template"))
    assert told[0] is not None
    assert told[0] == told[1] != told[2]


async def at_once(_: str) -> dict[str, Any]:
    """Every server is up already."""
    return {}


def in_phases(urls: tuple[str, str], **changes: Any) -> Plan:
    one = planned(urls[0], **changes)
    base = Target(variant="plain", url=urls[0], role="baseline")
    return replace(one, targets=(base, replace(one.targets[0], url=urls[1])), schedule="sequential")


def test_template_and_context_of_later_phases_are_recorded(tmp_path: Path) -> None:
    with vllm(mark=1) as one, vllm(mark=2) as other:
        manifest = run(in_phases((one, other)), tmp_path / "run", switch=at_once)
        assert manifest.status == "complete"
        told = {name: facts.get("template") for name, facts in manifest.variants.items()}
        assert None not in told.values()
        assert told["plain"] != told["fast"]
        assert {facts.get("max_model_len") for facts in manifest.variants.values()} == {LENGTH}


def test_a_prompt_without_room_in_a_later_phase_ends_the_run_before_it_is_sent(tmp_path: Path) -> None:
    with vllm() as one, vllm(tokens_a_word=2) as other:
        manifest = run(in_phases((one, other)), tmp_path / "run", switch=at_once)
        assert manifest.status == "failed"
        assert "180 tokens, 100 of output" in (manifest.problem or "")
        assert manifest.counts["fast"] == {}
        # Servers that are all there are asked before anything is measured.
        with pytest.raises(BadInputError, match="180 tokens, 100 of output"):
            run(in_phases((one, other)), tmp_path / "refused")


def test_another_template_in_a_later_phase_ends_the_run(tmp_path: Path) -> None:
    # In the first phase the tokens are counted, and the template is asked for.
    with vllm(marks=[1, 1, 2]) as one, vllm(mark=1) as other:
        manifest = run(in_phases((one, other)), tmp_path / "run", switch=at_once)
    assert manifest.status == "failed"
    assert "plain makes another prompt of a conversation" in (manifest.problem or "")
