"""Servers that sample from a toy language at the temperature they are asked for, or at a share of it."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from tests.web import Quiet, running

WORDS = tuple(
    f" {word}"
    for word in ["sun", "rain", "snow", "wind", "fog", "hail", "ice", "dew", "sky", "sea", "hill", "wood"]
)


def word(said: str, temperature: float, chance: random.Random) -> str:
    """The next word, which depends on the last one."""
    own = random.Random(said.rpartition(" ")[2])
    logits = [own.gauss(0, 2) for _ in WORDS]
    if not temperature:
        return WORDS[max(range(len(WORDS)), key=logits.__getitem__)]
    return chance.choices(WORDS, [math.exp(logit / temperature) for logit in logits])[0]


def sampled(share: float) -> Callable[[dict[str, Any]], str]:
    """An answer to a request; its first word is always right, as with servers that verify from the second."""

    def answer(body: dict[str, Any]) -> str:
        chance = random.Random(f"{body.get('seed')} {share}")
        said = ""
        for number in range(body["max_tokens"]):
            said += word(said, body["temperature"] * (share if number else 1.0), chance)
        return said

    return answer


@contextmanager
def serving(answer: Callable[[dict[str, Any]], str]) -> Generator[tuple[str, list[dict[str, Any]]]]:
    """A chat server that streams what ``answer`` makes of a request: address, and what was asked."""
    asked: list[dict[str, Any]] = []

    class Served(Quiet):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = json.dumps({"data": [{"id": "toy"}]}).encode() if self.path == "/v1/models" else b""
            self.reply(200 if body else 404, body)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not self.path.endswith("/chat/completions"):
                self.reply(404, b"")
                return
            asked.append(body)
            text = answer(body)
            words = text.split(" ")
            pieces = [piece for piece in (words[0], *(f" {rest}" for rest in words[1:])) if piece]
            usage = {"prompt_tokens": 5, "completion_tokens": max(1, len(pieces)), "total_tokens": 9}
            events: list[dict[str, Any]] = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
            reason = "length" if len(pieces) >= body["max_tokens"] else "stop"
            events.append({"choices": [{"delta": {}, "finish_reason": reason}]})
            events.append({"choices": [], "usage": usage})
            lines = [*(f"data: {json.dumps(event)}\n\n" for event in events), "data: [DONE]\n\n"]
            self.reply(200, "".join(lines).encode(), "text/event-stream")

    with running(Served) as url:
        yield url, asked
