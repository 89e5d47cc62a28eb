"""A draft model behind an endpoint: what it would choose at every position of a text.

vLLM tells it in one request: ``prompt_logprobs`` gives the rank of every token of a prompt, and rank 1 is the
greedy choice (vLLM, OpenAI-compatible server, extra parameters).

llama.cpp tells nothing about a prompt's own tokens, but what it writes: after a prefix of the text its greedy
continuation is the choice at each position for as long as it agrees with the text (llama.cpp server,
``/completion`` with token ids, ``return_tokens`` and ``cache_prompt``). At the first difference the next
request begins behind the token that stands there, and the server keeps the prefix it has already read. These
are the very steps of the running server.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from specdec.analysis.replay import runs
from specdec.errors import BadInputError, EnvironmentFault, Mistake
from specdec.forecast.bits import Bank, Kept, Positions
from specdec.forecast.lookup import LONGEST

if TYPE_CHECKING:
    from specdec.forecast.tokens import Tokenizer, Tokens

_PATIENCE_SECONDS = 120.0

_KEY = "Name the variable that holds its key with --api-key-env"
_REMEDIES = {
    401: _KEY,
    403: _KEY,
    404: "Correct the address: it is what stands before /v1. Only vLLM, llama.cpp and specdec golden have"
    " /tokenize; for another server name a GGUF file of the target, with specdec[forecast]",
}

_FEWEST, _MOST = 4, 64
"""Tokens that llama.cpp is asked for at once: more with every request that the text agreed with."""

_PROBE = 'The 12 quick brown foxes, naïvely: {"id": 3, "名": [true]}\n\tdef area_of(x):  # done\n'
"""Words, figures, other scripts and code: what tokenizers part on."""


def open_endpoint(url: str, cache: Path, tokenizer: Tokenizer | None, **access: Any) -> Endpoint:
    """The draft behind an address, told to be vLLM's or llama.cpp's by ``owned_by`` in its list of models.

    Args:
        url: address, with or without ``/v1``.
        cache: folder that keeps what a draft said about a text.
        tokenizer: the target's; what the server makes of a text is held against it. None leaves it unchecked.
        access: see ``Server``.

    Raises:
        BadInputError: it serves no model, or one of another tokenizer.
        EnvironmentFault: it does not answer.
    """
    server = Server(url, **access)
    models: list[dict[str, Any]] = server.ask("/v1/models", None).get("data") or []
    if not models:
        raise wrong_draft(url, "serves no model", "Name a vLLM or llama.cpp server of the draft")
    model = models[0]
    name = str(model["id"])
    engine = LlamaCpp(server) if model.get("owned_by") == "llamacpp" else Vllm(server, name)
    if tokenizer is not None:
        require_same_tokens(server.url, engine.tokens(_PROBE), tokenizer)
    return Endpoint(server, name, engine, cache)


class Server:
    """JSON over HTTP to one server.

    Args:
        url: address, with or without ``/v1``.
        headers: sent with every request, such as a key.
        tls: which certificates are trusted; the usual ones by default.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self._headers = {**(headers or {}), "Content-Type": "application/json"}
        self._tls = tls

    def ask(self, route: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """The reply to a request.

        Raises:
            ValueError: the text is longer than the server's context.
            EnvironmentFault: no reply, or none that can be read.
        """
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        request = urllib.request.Request(  # noqa: S310 - http and https alone come here
            self.url + route, data, self._headers
        )
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS, context=self._tls) as reply:  # noqa: S310
                answer: dict[str, Any] = json.load(reply)
        except urllib.error.HTTPError as error:
            words = error.read(2000).decode(errors="replace")
            if error.code == 400 and ("context" in words or "maximum" in words):
                raise ValueError(words) from None
            remedy = _REMEDIES.get(error.code, "Look at that server")
            raise _unreachable(self.url + route, f"HTTP {error.code}: {words[:300]}", remedy) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            remedy = "Start that server, or correct its address"
            raise _unreachable(self.url + route, str(error), remedy) from None
        return answer


class Endpoint:
    """A served draft; see ``drafts.Draft``."""

    look_up = False
    lanes = 1

    def __init__(self, server: Server, name: str, engine: Engine, cache: Path) -> None:
        self.name = name
        self.rests_on = f"{name} behind {server.url}, by {engine.by}"
        self._engine = engine
        self._bank = Bank(cache, f"{server.url}-{name}")

    def kept(self, text: Tokens) -> Kept:
        """See ``drafts.Draft``."""
        bits = self._bank.bits(text, lambda: self._engine.right(text))
        return dict.fromkeys(range(1, LONGEST + 1), Positions(runs(bits)))

    def close(self) -> None:
        """See ``drafts.Draft``."""


class Engine(Protocol):
    """What serves a draft, as far as each kind of it is asked in its own way.

    Attributes:
        by: what its choices are read from.
    """

    by: str

    def right(self, text: Tokens) -> list[bool]:
        """Whether the draft chooses the token that stands at each position after the first.

        Raises:
            ValueError: the text is longer than the draft's context.
        """
        ...

    def tokens(self, text: str) -> list[int] | None:
        """What the server makes of a text; None where it does not tell."""
        ...


class Vllm:
    """A draft in vLLM."""

    by = "prompt_logprobs"

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._name = name

    def right(self, text: Tokens) -> list[bool]:
        """See ``Engine``."""
        body = {"model": self._name, "prompt": [*text.prompt, *text.written], "max_tokens": 1}
        reply = self._server.ask("/v1/completions", {**body, "temperature": 0, "prompt_logprobs": 1})
        choice = reply["choices"][0]
        ranks = choice.get("prompt_logprobs") or reply.get("prompt_logprobs")
        if not ranks:
            raise wrong_draft(self._server.url, "gives no prompt_logprobs", "Serve it with vLLM or llama.cpp")
        wanted = list(enumerate(text.written))[1:]
        return [ranks[len(text.prompt) + i][str(token)]["rank"] == 1 for i, token in wanted]

    def tokens(self, text: str) -> list[int] | None:
        """See ``Engine``."""
        body = {"model": self._name, "prompt": text, "add_special_tokens": False}
        return _told(self._server, body)


class LlamaCpp:
    """A draft in llama.cpp's server."""

    by = "greedy continuation"

    def __init__(self, server: Server) -> None:
        self._server = server

    def right(self, text: Tokens) -> list[bool]:
        """See ``Engine``."""
        bits: list[bool] = []
        asked = _FEWEST
        while left := text.written[1 + len(bits) :]:
            known = text.written[: 1 + len(bits)]
            chosen = self._goes_on([*text.prompt, *known], min(asked, len(left)))
            agreed = [choice == token for choice, token in zip(chosen, left, strict=False)]
            first_wrong = agreed.index(False) if False in agreed else None
            bits += agreed if first_wrong is None else agreed[: first_wrong + 1]
            asked = min(2 * asked, _MOST) if first_wrong is None else _FEWEST
        return bits

    def _goes_on(self, prompt: list[int], tokens: int) -> list[int]:
        reply = self._server.ask(
            "/completion",
            {
                "prompt": prompt,
                "n_predict": tokens,
                "temperature": 0,
                "repeat_penalty": 1.0,
                "cache_prompt": True,
                "return_tokens": True,
            },
        )
        chosen = cast("list[int]", reply.get("tokens") or [])
        if not chosen:
            raise wrong_draft(self._server.url, "returns no tokens", "Serve the draft with a newer llama.cpp")
        return chosen

    def tokens(self, text: str) -> list[int] | None:
        """See ``Engine``."""
        return _told(self._server, {"content": text})


def _told(server: Server, body: dict[str, Any]) -> list[int] | None:
    try:
        tokens = server.ask("/tokenize", body).get("tokens")
    except (EnvironmentFault, ValueError):
        return None
    return cast("list[int]", tokens) if isinstance(tokens, list) else None


def require_same_model(name: str, draft: Tokenizer, tokenizer: Tokenizer) -> None:
    """Refuses a draft whose tokenizer reads a probing text otherwise than the target's."""
    require_same_tokens(name, draft.tokenize(_PROBE, special=False), tokenizer)


def require_same_tokens(name: str, told: list[int] | None, tokenizer: Tokenizer) -> None:
    """Refuses a draft that made other tokens of the probing text; None leaves it unchecked."""
    own = tokenizer.tokenize(_PROBE, special=False)
    if told is None or told == own:
        return
    place = next((i for i, pair in enumerate(zip(told, own, strict=False)) if pair[0] != pair[1]), len(own))
    raise wrong_draft(
        name,
        f"has another tokenizer: it reads {_PROBE!r} as {len(told)} tokens, and the target as {len(own)};"
        f" token {place} is {told[place : place + 1]}, not {own[place : place + 1]}",
        "Name a draft of the target's family, or the target's tokenizer with --tokenizer",
    )


def _unreachable(address: str, problem: str, remedy: str) -> EnvironmentFault:
    return EnvironmentFault(f"{address}: {problem}", remedy=remedy)


def wrong_draft(name: str, problem: str, remedy: str) -> BadInputError:
    """The error of a draft that cannot be one."""
    return BadInputError("command line", [Mistake("--draft", name, problem, remedy)])
