"""A toy language model with known scores, its right and its wrong decoders, and a server for it. Written
apart from what is tested.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from tests.web import Quiet, running

VOCABULARY = tuple(f" {a}{b}" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u"))
CONTEXT = 12


def scores(context: Sequence[int]) -> list[float]:
    """Logits of the next token; the two best lie closer than 0.02 in about one of a hundred contexts."""
    chance = random.Random(",".join(map(str, context[-CONTEXT:])))
    return [chance.gauss(0, 2.5) for _ in VOCABULARY]


def log_probabilities(context: Sequence[int]) -> list[float]:
    logits = scores(context)
    total = math.log(sum(math.exp(value) for value in logits))
    return [value - total for value in logits]


def coarse(values: Sequence[float]) -> list[float]:
    """As bf16 has logits of 16 to 32: 1/8 apart."""
    return [round(8 * value) / 8 for value in values]


Choose = Callable[[list[float], Sequence[int]], int]


def best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def decode(prompt: Sequence[int], tokens: int, choose: Choose) -> list[int]:
    said: list[int] = []
    while len(said) < tokens:
        context = [*prompt, *said]
        said.append(choose(scores(context), context))
    return said


def exact(values: list[float], _: Sequence[int]) -> int:
    return best(values)


def rounding(chance: random.Random, size: float) -> Choose:
    """A right decoder whose graph rounds otherwise: every logit off by up to ``size``."""
    return lambda values, _: best([value + chance.uniform(-size, size) for value in values])


def second_choice(chance: random.Random, every: int) -> Choose:
    def choose(values: list[float], _: Sequence[int]) -> int:
        first = best(values)
        if chance.random() >= 1 / every:
            return first
        return best([-math.inf if index == first else value for index, value in enumerate(values)])

    return choose


def losing(start: int, lost: int) -> Choose:
    """A decoder that sees its context without the ``lost`` tokens before the last four, from a token on."""

    def choose(values: list[float], context: Sequence[int]) -> int:
        if len(context) < start or len(context) % 40 >= lost:
            return best(values)
        return best(scores([*context[: -lost - 4], *context[-4:]]))

    return choose


def text_of(tokens: Sequence[int]) -> str:
    return "".join(VOCABULARY[token] for token in tokens)


def tokens_of(text: str) -> list[int]:
    return [VOCABULARY.index(text[at : at + 3]) for at in range(0, len(text), 3)]


class Handler(Quiet):
    protocol_version = "HTTP/1.1"
    kind = ""
    logprobs = ""
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.answer({"data": [{"id": "toy"}]} if self.path == "/v1/models" else None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(self.path)
        route = self.path.removeprefix("/v1").strip("/").replace("/", "_").replace("-", "_")
        served = {
            "llamacpp": ("apply_template", "tokenize", "completion"),
            "vllm": ("tokenize", "detokenize", "completions"),
            "chat": (),
        }[self.kind]
        if route in (*served, "chat_completions"):
            getattr(self, f"{self.kind}_{route}", self.chat_chat_completions)(body)
        else:
            self.answer(None)

    def llamacpp_apply_template(self, body: dict[str, Any]) -> None:
        self.answer({"prompt": body["messages"][-1]["content"]})

    def llamacpp_tokenize(self, body: dict[str, Any]) -> None:
        tokens = tokens_of(body["content"])
        self.answer({"tokens": [{"id": token, "piece": VOCABULARY[token]} for token in tokens]})

    def llamacpp_completion(self, body: dict[str, Any]) -> None:
        self.stream(self.llamacpp(body))

    def vllm_tokenize(self, body: dict[str, Any]) -> None:
        self.answer({"tokens": tokens_of(body.get("prompt") or body["messages"][-1]["content"])})

    def vllm_detokenize(self, body: dict[str, Any]) -> None:
        self.answer({"prompt": text_of(body["tokens"])})

    def vllm_completions(self, body: dict[str, Any]) -> None:
        self.stream(self.vllm(body))

    def chat_chat_completions(self, body: dict[str, Any]) -> None:
        self.stream(self.chat(body))

    def answer(self, content: dict[str, Any] | None) -> None:
        self.reply(200 if content is not None else 404, json.dumps(content or {}).encode())

    def stream(self, events: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for event in events:
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            self.asked.append("closed early")

    def steps(self, prompt: list[int], most: int) -> Iterator[tuple[int, list[float]]]:
        context = list(prompt)
        for number in range(most):
            values = log_probabilities(context)
            if self.logprobs == "bf16":
                values = coarse(values)
            elif self.logprobs == "uneven" and number == 0:
                # The first token comes from reading, in another graph than the others.
                chance = random.Random(len(context))
                values = [value + chance.uniform(-0.1, 0.1) for value in values]
            context.append(best(values))
            yield context[-1], values

    def llamacpp(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for token, values in self.steps(body["prompt"], body["n_predict"]):
            listed = sorted(range(len(values)), key=lambda index: -values[index])[: body["n_probs"]]
            told = [{"bytes": list(VOCABULARY[index].encode()), "logprob": values[index]} for index in listed]
            entry = {"id": token, **told[0], "top_logprobs": told}
            yield {"content": VOCABULARY[token], "completion_probabilities": [entry]}

    def vllm(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for token, values in self.steps(body["prompt"], body["max_tokens"]):
            listed = sorted(range(len(values)), key=lambda index: -values[index])[: body["logprobs"]]
            own = values[token]
            top = {VOCABULARY[index]: values[index] for index in listed}
            if self.logprobs == "ids":
                own, top = float(token), {VOCABULARY[token]: float(token)}
            elif self.logprobs == "zeros":
                own, top = 0.0, dict.fromkeys(top, 0.0)
            told = {"tokens": [VOCABULARY[token]], "token_logprobs": [own], "top_logprobs": [top]}
            yield {"choices": [{"text": VOCABULARY[token], "logprobs": told}]}

    def chat(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        messages = body["messages"]
        given = messages[-1]["content"] if messages[-1]["role"] == "assistant" else ""
        assert bool(given) == bool(body.get("continue_final_message"))
        user = next(message["content"] for message in messages if message["role"] == "user")
        for token, _ in self.steps(tokens_of(user) + tokens_of(given), body["max_tokens"]):
            yield {"choices": [{"delta": {"content": VOCABULARY[token]}}]}


@contextmanager
def served(kind: str, logprobs: str = "real") -> Generator[tuple[str, list[str]]]:
    """The toy model behind the routes of ``llamacpp``, ``vllm`` or ``chat``: address, and what was asked."""
    asked: list[str] = []
    handler = type("Served", (Handler,), {"kind": kind, "logprobs": logprobs, "asked": asked})
    with running(handler) as url:
        yield url, asked
