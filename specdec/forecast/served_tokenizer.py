"""The target's own server as its tokenizer, so that nothing has to be installed for a forecast by look-up.

vLLM's ``/tokenize`` takes a conversation or a text; llama.cpp's takes a text, and ``/apply-template`` renders
a conversation. Both put their own template before it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from specdec.errors import BadInputError, Mistake
from specdec.forecast.endpoints import Server

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_TOKEN = -1
"""Stands where the server does not show which token ends a text: no other token is equal to it."""


class ServedTokenizer:
    """See ``tokens.Tokenizer``.

    Args:
        url: address of the target's server, with or without ``/v1``.
        access: see ``Server``.

    Raises:
        BadInputError: it serves no model, or does not tokenize.
        EnvironmentFault: it does not answer.
    """

    def __init__(self, url: str, **access: Any) -> None:
        self.url = url
        self._server = Server(url, **access)
        models: list[dict[str, Any]] = self._server.ask("/v1/models", None).get("data") or []
        if not models:
            raise self._refused("serves no model")
        self._model = str(models[0]["id"])
        self._by_llama = models[0].get("owned_by") == "llamacpp"
        self._known: dict[str, int | None] = {}
        self.tokenize("word", special=False)

    def close(self) -> None:
        """Holds nothing."""

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """See ``Tokenizer``."""
        if self._by_llama:
            return self._tokens({"content": text, "parse_special": special, "add_special": special})
        return self._tokens({"model": self._model, "prompt": text, "add_special_tokens": special})

    def token(self, piece: str) -> int | None:
        """See ``Tokenizer``."""
        if piece not in self._known:
            tokens = self.tokenize(piece, special=False)
            self._known[piece] = tokens[0] if len(tokens) == 1 else None
        return self._known[piece]

    def conversation(self, messages: Iterable[tuple[str, str]]) -> list[int]:
        """See ``Tokenizer``."""
        body = {
            "messages": [{"role": role, "content": content} for role, content in messages],
            "add_generation_prompt": True,
        }
        if not self._by_llama:
            return self._tokens({"model": self._model, **body})
        rendered = self._server.ask("/apply-template", body).get("prompt")
        if not isinstance(rendered, str):
            raise self._refused("does not render a conversation")
        return self.tokenize(rendered, special=True)

    @property
    def turn_end(self) -> int:
        """See ``tokens.Tokenizer``."""
        return self._behind_an_answer

    @functools.cached_property
    def _behind_an_answer(self) -> int:
        question, answer = ("user", "question"), "answer"
        before = self.conversation([question])
        # A turn follows, since llama.cpp takes an answer at the end for one to be gone on with.
        after = self.conversation([question, ("assistant", answer), question])
        place = len(before) + len(self.tokenize(answer, special=False))
        return after[place] if after[: len(before)] == before and len(after) > place else NO_TOKEN

    @property
    def end(self) -> int:
        """See ``Tokenizer``; no server tells it."""
        return NO_TOKEN

    def _tokens(self, body: Mapping[str, Any]) -> list[int]:
        tokens: Any = self._server.ask("/tokenize", dict(body)).get("tokens")
        if not isinstance(tokens, list):
            raise self._refused("does not tokenize")
        return cast("list[int]", tokens)

    def _refused(self, problem: str) -> BadInputError:
        remedy = "Name a vLLM or llama.cpp server of the target, or a GGUF file of it"
        return BadInputError("command line", [Mistake("--tokenizer", self.url, problem, remedy)])
