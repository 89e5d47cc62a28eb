"""References over HTTP, best first: llama.cpp's own routes, vLLM's completions, and chat alone.

The first two take token ids. Ids matter: a text that is cut anew gives other tokens in one of twenty places.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdec.errors import BadInputError, Mistake
from specdec.rejoin.api import Api
from specdec.rejoin.walk import Piece, Reference, Token
from specdec.text import whole_characters

LISTED = 40
"""Likeliest tokens asked for at each position of llama.cpp."""

LISTED_OPENAI = 20
"""The same elsewhere: vLLM's limit unless it is raised."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked when the texts were made.

    Attributes:
        messages: (role, content) of each, as the chat route takes them.
        fixed_length: whether the end of an answer was ignored.
        thinking: Qwen3 thinking mode that was set; None where the request did not say.
        model: name to ask for.
    """

    messages: tuple[tuple[str, str], ...]
    fixed_length: bool
    thinking: bool | None
    model: str | None

    def conversation(self) -> list[dict[str, str]]:
        """The messages as the chat route takes them."""
        return [{"role": role, "content": content} for role, content in self.messages]

    def template(self) -> dict[str, Any]:
        """What the chat template is told."""
        return {} if self.thinking is None else {"chat_template_kwargs": {"enable_thinking": self.thinking}}


def reference(api: Api, asked: Asked) -> Reference:
    """The best reference that a server offers.

    Raises:
        EnvironmentFault: no server there.
        BadInputError: it serves several models and none was named.
    """
    rendered = api.call("POST", "/apply-template", {"messages": asked.conversation(), **asked.template()})
    if rendered is not None and isinstance(rendered.get("prompt"), str):
        return LlamaCpp(api, rendered["prompt"], fixed_length=asked.fixed_length)
    model = asked.model or _only_model(api)
    ids = api.call(
        "POST", "/tokenize", {"model": model, "messages": asked.conversation(), **asked.template()}
    )
    if ids is not None and ids.get("tokens"):
        return Vllm(api, model, [int(number) for number in ids["tokens"]], fixed_length=asked.fixed_length)
    return Chat(api, model, asked)


def _only_model(api: Api) -> str:
    answer: dict[str, Any] = api.call("GET", "/v1/models") or {}
    listed: list[dict[str, Any]] = answer.get("data") or []
    if len(listed) != 1:
        problem = f"is not given, and the server serves {len(listed)}"
        raise BadInputError(api.url, [Mistake("model", None, problem, "Name it: --model")])
    return str(listed[0]["id"])


class LlamaCpp:
    """llama.cpp: ids in, bytes and log-probabilities out."""

    def __init__(self, api: Api, prompt: str, *, fixed_length: bool) -> None:
        self._api = api
        self._fixed = fixed_length
        self._prompt = [number for piece in self._cut(prompt, special=True) for number in piece.ids]

    def _cut(self, text: str, *, special: bool) -> list[Piece]:
        # The chat route puts the model's first token before a rendered prompt, and some models (Gemma) say
        # something else without it.
        body = {"content": text, "parse_special": special, "add_special": special, "with_pieces": True}
        answer = self._api.call("POST", "/tokenize", body) or {}
        parts: list[dict[str, Any]] = answer.get("tokens") or []
        return [Piece(_bytes(part["piece"]), (int(part["id"]),)) for part in parts]

    def cut(self, text: str) -> Sequence[Piece]:
        """See ``Reference``."""
        return self._cut(text, special=False)

    def decode(self, before: Sequence[Piece], most: int) -> Generator[Token]:
        """See ``Reference``."""
        body = {
            "prompt": self._prompt + [number for piece in before for number in piece.ids],
            "n_predict": most,
            "temperature": 0,
            "stream": True,
            "n_probs": LISTED,
            "ignore_eos": self._fixed,
        }
        for event in self._api.stream("/completion", body):
            entries: list[dict[str, Any]] = event.get("completion_probabilities") or []
            for entry in entries:
                listed: list[dict[str, Any]] = entry.get("top_logprobs") or []
                others = {bytes(other["bytes"]): other.get("logprob") for other in listed}
                yield scored(bytes(entry["bytes"]), entry.get("logprob"), others)


def _bytes(piece: str | list[int]) -> bytes:
    """A piece as llama.cpp tells it: text, or bytes where it ends inside a character."""
    return whole_characters(piece).encode() if isinstance(piece, str) else bytes(piece)


class Vllm:
    """vLLM, and what offers its routes: ids in, text and log-probabilities out."""

    def __init__(self, api: Api, model: str, prompt: Sequence[int], *, fixed_length: bool) -> None:
        self._api = api
        self._model = model
        self._prompt = list(prompt)
        self._fixed = fixed_length
        self._texts: dict[tuple[int, ...], str] = {}

    def cut(self, text: str) -> Sequence[Piece]:
        """See ``Reference``. Tokens that end inside a character are one piece with those that complete it."""
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        answer = self._api.call("POST", "/tokenize", body) or {}
        pieces: list[Piece] = []
        held: list[int] = []
        ids: list[int] = answer.get("tokens") or []
        for number in ids:
            held.append(number)
            said = self._text(tuple(held))
            if "\ufffd" not in said:
                pieces.append(Piece(whole_characters(said).encode(), tuple(held)))
                held = []
        return pieces

    def _text(self, ids: tuple[int, ...]) -> str:
        if ids not in self._texts:
            body = {"model": self._model, "tokens": list(ids)}
            self._texts[ids] = str((self._api.call("POST", "/detokenize", body) or {}).get("prompt", ""))
        return self._texts[ids]

    def decode(self, before: Sequence[Piece], most: int) -> Generator[Token]:
        """See ``Reference``."""
        body = {
            "model": self._model,
            "prompt": self._prompt + [number for piece in before for number in piece.ids],
            "max_tokens": most,
            "temperature": 0,
            "stream": True,
            "logprobs": LISTED_OPENAI,
            "ignore_eos": self._fixed,
        }
        for event in self._api.stream("/v1/completions", body):
            choices: list[dict[str, Any]] = event.get("choices") or []
            for choice in choices:
                yield from _of_completion(choice)


def _of_completion(choice: Mapping[str, Any]) -> Iterator[Token]:
    logprobs: dict[str, Any] = choice.get("logprobs") or {}
    tokens: list[str] = logprobs.get("tokens") or []
    text: str = choice.get("text") or ""
    if "".join(tokens) != text:
        # Told by id, or cut inside a character: the text is compared, and no gap is known.
        tokens = []
    owns: list[float | None] = logprobs.get("token_logprobs") or []
    lists: list[dict[str, float | None]] = logprobs.get("top_logprobs") or []
    if not tokens or len(owns) != len(tokens) or len(lists) != len(tokens):
        if text:
            yield Token(whole_characters(text).encode(), None, {})
        return
    for token, own, others in zip(tokens, owns, lists, strict=True):
        known = {whole_characters(name).encode(): value for name, value in others.items()}
        yield scored(whole_characters(token).encode(), own, known)


class Chat:
    """Any other server: text in by ``continue_final_message``, text out. Words stand for tokens."""

    def __init__(self, api: Api, model: str, asked: Asked) -> None:
        self._api = api
        self._model = model
        self._asked = asked

    def cut(self, text: str) -> Sequence[Piece]:
        """See ``Reference``."""
        return [Piece(word.encode()) for word in re.findall(r"\s*\S+|\s+$", text)]

    def decode(self, before: Sequence[Piece], most: int) -> Generator[Token]:
        """See ``Reference``."""
        body: dict[str, Any] = {
            "model": self._model,
            "messages": self._asked.conversation(),
            # A word is several tokens.
            "max_tokens": 4 * most,
            "temperature": 0,
            "stream": True,
            **self._asked.template(),
        }
        if self._asked.fixed_length:
            body["ignore_eos"] = True
        if before:
            own = b"".join(piece.data for piece in before).decode(errors="replace")
            body["messages"] = [*body["messages"], {"role": "assistant", "content": own}]
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        for event in self._api.stream("/v1/chat/completions", body):
            choices: list[dict[str, Any]] = event.get("choices") or []
            for choice in choices:
                delta: dict[str, Any] = choice.get("delta") or {}
                text = delta.get("content")
                if isinstance(text, str) and text:
                    yield Token(whole_characters(text).encode(), None, {})


def scored(data: bytes, own: float | None, others: Mapping[bytes, float | None]) -> Token:
    """A token with its log-probabilities, where these can be real.

    NxD Inference's loader returns token ids in their place, and some samplers nothing but zeros. A real list
    holds no number above 0 and two that differ.
    """
    known = {name: value for name, value in others.items() if value is not None and math.isfinite(value)}
    values = [*known.values(), *([own] if own is not None else [])]
    if own is None or max(values) > 1e-6 or len(set(values)) < 2:
        return Token(data, None, {})
    return Token(data, own, known)
