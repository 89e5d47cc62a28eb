"""Drafts behind an endpoint: vLLM's by rank, and a real llama.cpp server by what it goes on to write."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from specdec.catalog.conventions import TEXTBOOK
from specdec.commands.forecast import command as forecast_command
from specdec.errors import BadInputError, EnvironmentFault
from specdec.forecast.answers import Answer
from specdec.forecast.drafts import Draft, open_draft
from specdec.forecast.endpoints import open_endpoint
from specdec.forecast.forecast import read
from specdec.forecast.model import opened
from specdec.forecast.served_tokenizer import ServedTokenizer
from specdec.forecast.shipped import packaged
from specdec.forecast.tokens import Tokens, tokenize
from tests.forecast.test_forecast import Letters, text
from tests.web import running


class Ranks(BaseHTTPRequestHandler):
    """A vLLM server whose model would have written every second token."""

    def do_GET(self) -> None:
        self.reply({"data": [{"id": "small"}]})

    told: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self.reply({"tokens": self.told})
            return
        if len(asked["prompt"]) > 100:
            self.reply({"error": {"message": "maximum context length is 100"}}, status=400)
            return
        assert (asked["prompt_logprobs"], asked["model"]) == (1, "small")
        ranks = [
            {str(token): {"logprob": -1, "rank": 1 + place % 2}}
            for place, token in enumerate(asked["prompt"])
        ]
        self.reply({"choices": [{"prompt_logprobs": [None, *ranks[1:]]}]})

    def reply(self, body: object, status: int = 200) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Nothing is printed."""


@contextlib.contextmanager
def served(kind: type[BaseHTTPRequestHandler]) -> Generator[str]:
    with running(kind) as url:
        yield f"{url}/v1"


@contextlib.contextmanager
def ranks(tmp_path: Path, tokenizer: Letters | None = None) -> Generator[Draft]:
    with served(Ranks) as url:
        yield open_endpoint(url, tmp_path, tokenizer)


def test_vllm_tells_its_choices_by_rank(tmp_path: Path) -> None:
    with ranks(tmp_path) as draft:
        kept = draft.kept(text("abcdef"))[7].kept.tolist()
    assert draft.name == "small"
    # The prompt has 20 tokens, so the answer's second token stands at 21: wrong, right, wrong, right, wrong.
    assert kept == [0, 1, 0, 1, 0]


def test_a_text_longer_than_the_servers_context_is_left_out(tmp_path: Path) -> None:
    with ranks(tmp_path) as draft:
        replayed, left_out = read(draft, [text("abc"), text("x" * 90)], TEXTBOOK, lambda _, __, ___: None)
    assert len(replayed.texts) == 1
    assert left_out == {"longer than the draft's context": 1}


def test_a_server_of_another_tokenizer_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(BadInputError, match=r"has another tokenizer: .* as 0 tokens, and the target as"),
        ranks(tmp_path, Letters()),
    ):
        raise AssertionError


def test_a_draft_that_samples_cannot_be_behind_an_endpoint(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="tells no probabilities after temperature"):
        open_draft("http://127.0.0.1:1", cache=tmp_path, tokenizer=None, samples=True)


def test_no_server_is_said(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="Connection refused"):
        open_draft("http://127.0.0.1:1", cache=tmp_path, tokenizer=None)


@pytest.fixture(scope="module")
def llamacpp() -> Generator[str]:
    program = (sys.executable, "-m", "specdec.rehearsal.engines.llamacpp_server", "--fused-attention")
    model = ("--model", str(packaged()), "--alias", "small", "--context", "256")
    with subprocess.Popen([*program, *model], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[-1]
        server.kill()


class LettersServed(Ranks):
    """A vLLM server of the target whose tokens are characters."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert (self.path, asked["model"]) == ("/tokenize", "small")
        if "messages" in asked:
            text = "".join(f"{turn['content']}|" for turn in asked["messages"])
            text += "answer:" * asked["add_generation_prompt"]
        else:
            text = asked["prompt"]
        self.reply({"count": len(text), "tokens": [ord(letter) for letter in text]})


def test_the_targets_own_server_is_the_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing of the engine is there, as where the package alone is installed.
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    line = {"prompt": "p" * 20, "answer": "one two one two one two", "completion_tokens": 23}
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(line) + "\n", encoding="utf-8")
    with served(LettersServed) as url:
        shown = CliRunner().invoke(
            forecast_command,
            [str(log), "--draft", "ngram:3", "--tokenizer", url, "--out", str(tmp_path / "out")],
            standalone_mode=False,
        )
    assert shown.exception is None, shown.exception
    told = json.loads((tmp_path / "out" / "forecast.json").read_text(encoding="utf-8"))
    assert (told["answers"], told["matched"], told["tokens"]) == (1, 1, 23)


def test_a_server_that_does_not_tokenize_is_said(tmp_path: Path) -> None:
    class Mute(Ranks):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.reply({"error": "no such route"})

    with served(Mute) as url, pytest.raises(BadInputError, match="does not tokenize"):
        ServedTokenizer(url)


@pytest.mark.slow
def test_a_llamacpp_server_tokenizes_as_its_weights_do(llamacpp: str) -> None:
    asked = (("system", "Be brief."), ("user", "Wie geht's, naïve 世界?"))
    served = ServedTokenizer(llamacpp)
    with opened(packaged(), weights=False) as model:
        assert served.conversation(asked) == model.conversation(asked)
        assert served.turn_end == model.turn_end
        for text in ('The answer is 4.\n\n{"id": 3}', "世界", "<|im_end|>"):
            assert served.tokenize(text, special=False) == model.tokenize(text, special=False)
        assert served.token(" the") == model.token(" the")


@pytest.mark.slow
def test_llamacpp_tells_the_choices_that_its_weights_make(llamacpp: str, tmp_path: Path) -> None:
    asked = (("user", "What is 2+2? Answer with one number."),)
    with opened(packaged(), threads=1) as model:
        # What this model writes by itself, and what it would not have written.
        answers = [
            Answer(
                id="own",
                group="g",
                messages=asked,
                text="The answer is 4.",
                completion_tokens=7,
                finish="stop",
            ),
            Answer(
                id="other", group="g", messages=asked, text="The answer is five, or so I was told in school."
            ),
        ]
        texts = tokenize(answers, model).texts
        assert model.piece(texts[0].written[-1]) == "<|im_end|>"
        draft = open_draft(llamacpp, cache=tmp_path, tokenizer=model)
        assert draft.name == "small"
        served, computed = (
            [kept_of(one, text) for text in texts]
            for one in (draft, open_draft("shipped:Q4_1", cache=tmp_path / "own", tokenizer=model))
        )
        with pytest.raises(ValueError, match="exceeds the available context size"):
            draft.kept(Tokens(answers[0], texts[0].prompt * 7, texts[0].written))
    assert served == computed
    assert served[0] == [6, 5, 4, 3, 2, 1]
    assert 0 in served[1]


def kept_of(draft: Draft, text: Tokens) -> list[int]:
    kept: list[int] = draft.kept(text)[7].kept.tolist()
    return kept
