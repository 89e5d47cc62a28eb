"""Drafts to forecast: look-up in the context, a model in llama.cpp, a model behind an endpoint."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from specdec.analysis.replay import Bits, Counts, runs
from specdec.errors import BadInputError, EnvironmentFault, Mistake
from specdec.forecast.lookup import LONGEST, find_matches, matched_tokens
from specdec.forecast.model import LlamaModel, digest, engine
from specdec.forecast.shipped import MODEL, packaged
from specdec.forecast.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Positions:
    """What a draft does at each position of a text with one window.

    Attributes:
        kept: proposals that are kept from there.
        proposes: whether it proposes anything there; None where it always does.
    """

    kept: Counts
    proposes: Bits | None = None


Kept = dict[int, Positions]
"""By window."""

_PATIENCE_SECONDS = 120.0


class Draft(Protocol):
    """What proposes.

    Attributes:
        name: as a reader knows it.
        rests_on: engine and weights, in words.
        look_up: whether it proposes only where it finds something.
    """

    name: str
    rests_on: str
    look_up: bool

    def kept(self, text: Tokens) -> Kept:
        """What is kept at each position of a text after its first token.

        Raises:
            ValueError: this text cannot be read by this draft; the message says why.
        """
        ...

    def close(self) -> None:
        """Gives back what it holds."""
        ...


def open_draft(name: str, *, cache: Path, tokenizer: LlamaModel | None) -> Draft:
    """A draft by its name: ``ngram:N``, ``shipped``, a GGUF file or a folder with one, or an address.

    Args:
        name: of the draft.
        cache: folder that keeps what a draft said about a text.
        tokenizer: the target's; the draft's vocabulary is held against it.

    Raises:
        BadInputError: no such draft, one that needs the target's hidden states, or another vocabulary.
    """
    kind, _, rest = name.partition(":")
    if kind == "ngram":
        if not rest.isdecimal() or not 1 <= int(rest) <= LONGEST:
            raise _wrong(name, f"does not name a length from 1 to {LONGEST}", "Write ngram:3")
        return LookUp(int(rest))
    if kind.lower() in ("eagle", "eagle3", "medusa", "mtp", "dflash"):
        raise _wrong(
            name,
            "drafts from the target's hidden states, which no logged text holds",
            "Forecast a standalone draft model or look-up; measure this one",
        )
    if kind in ("http", "https"):
        return Endpoint(name, cache)
    path = packaged() if name == "shipped" else Path(name)
    if path.is_dir():
        files = sorted(path.glob("*.gguf"))
        if len(files) != 1:
            raise _wrong(name, f"holds {len(files)} GGUF files", "Name the file")
        path = files[0]
    if not path.is_file():
        raise _wrong(name, "is no file", "Write ngram:N, shipped, a GGUF file or folder, or an address")
    _require_memory(path)
    model = LlamaModel(path)
    if tokenizer is not None and path != tokenizer.path:
        require_same_vocabulary(name, model, tokenizer)
    return Model(MODEL if name == "shipped" else path.stem, model, Bank(cache, f"{digest(path)}-{engine()}"))


def _require_memory(path: Path) -> None:
    """Refuses weights that are read from the disk again at every pass, since they do not fit."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    if (size := path.stat().st_size) > free:
        raise EnvironmentFault(
            f"{path} has {size >> 20} MB, and {free >> 20} MB of memory are free",
            remedy="Name a smaller draft, or serve it with vLLM and give its address",
        )


def require_same_vocabulary(name: str, draft: LlamaModel, target: LlamaModel) -> None:
    """Refuses a draft whose tokens mean something else.

    Raises:
        BadInputError: the vocabularies differ; the message says where.
    """
    size = min(draft.vocabulary, target.vocabulary)
    first = next((token for token in range(size) if draft.piece(token) != target.piece(token)), None)
    if draft.vocabulary == target.vocabulary and first is None:
        return
    where = "" if first is None else f"; token {first} is {draft.piece(first)!r}, not {target.piece(first)!r}"
    raise _wrong(
        name,
        f"has another vocabulary: {draft.vocabulary} tokens, and the target has {target.vocabulary}{where}",
        "Name a draft of the target's family, or the target's tokenizer with --tokenizer",
    )


class LookUp:
    """See ``forecast.lookup``."""

    look_up = True

    def __init__(self, length: int) -> None:
        self._length = length
        self.name = f"look-up of {length} tokens"
        self.rests_on = "look-up as llama.cpp's ngram_simple does it; other servers choose another place"

    def kept(self, text: Tokens) -> Kept:
        """See ``Draft``."""
        matches_by_length = {
            length: find_matches(text.prompt, text.written, length) for length in range(1, self._length + 1)
        }
        kept: Kept = {}
        for window in range(1, LONGEST + 1):
            matches = matches_by_length[matched_tokens(window, self._length)]
            kept[window] = Positions(matches.kept(window), matches.proposed(window) > 0)
        return kept

    def close(self) -> None:
        """See ``Draft``."""


class Bank:
    """What a draft said about texts, kept on disk line by line, so that a forecast goes on where it ended.

    Args:
        folder: of all drafts.
        key: names draft and engine.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.jsonl"
        self._known: dict[str, str] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                # A line that an interruption cut short is asked again.
                try:
                    name, bits = json.loads(line)
                except ValueError:
                    continue
                self._known[name] = bits

    def bits(self, text: Tokens, ask: Callable[[], list[bool]]) -> Bits:
        """The bits of a text, asked once."""
        name = hashlib.sha256(json.dumps([text.prompt, text.written], allow_nan=False).encode()).hexdigest()
        if name not in self._known:
            self._known[name] = "".join("1" if bit else "0" for bit in ask())
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, self._known[name]], allow_nan=False) + "\n")
            except OSError as error:
                raise EnvironmentFault(
                    f"Cannot write {self._path}: {error.strerror}",
                    remedy="Set XDG_CACHE_HOME to a folder you may write to",
                ) from None
        return np.asarray([bit == "1" for bit in self._known[name]], dtype=np.bool_)


class Model:
    """A draft model read in llama.cpp, see ``forecast.model``."""

    look_up = False

    def __init__(self, name: str, model: LlamaModel, bank: Bank) -> None:
        self.name = name
        self._model = model
        self._bank = bank
        self.rests_on = f"{model.path.name} in {engine()}: another engine or quantization chooses otherwise"

    def kept(self, text: Tokens) -> Kept:
        """See ``Draft``."""

        def ask() -> list[bool]:
            chosen = self._model.choices(text.prompt, text.written)
            return [token == right for token, right in zip(chosen, text.written[1:], strict=True)]

        return dict.fromkeys(range(1, LONGEST + 1), Positions(runs(self._bank.bits(text, ask))))

    def close(self) -> None:
        """See ``Draft``."""
        self._model.close()


@dataclass
class Endpoint:
    """A draft model behind vLLM's completions route: ``prompt_logprobs`` tells the rank of every token of a
    prompt, and rank 1 is the greedy choice (vLLM, OpenAI-compatible server, extra parameters).
    """

    url: str
    cache: Path
    look_up: bool = False

    def __post_init__(self) -> None:
        self.url = self.url.rstrip("/").removesuffix("/v1")
        models: list[dict[str, Any]] = self._ask("/v1/models", None).get("data") or []
        if not models:
            raise _wrong(self.url, "serves no model", "Name a vLLM server of the draft")
        self.name = str(models[0]["id"])
        self.rests_on = f"{self.name} behind {self.url}, by prompt_logprobs"
        self._bank = Bank(self.cache, f"{self.url}-{self.name}")

    def kept(self, text: Tokens) -> Kept:
        """See ``Draft``."""

        def ask() -> list[bool]:
            body = {"model": self.name, "prompt": [*text.prompt, *text.written], "max_tokens": 1}
            reply = self._ask("/v1/completions", {**body, "temperature": 0, "prompt_logprobs": 1})
            choice = reply["choices"][0]
            ranks = choice.get("prompt_logprobs") or reply.get("prompt_logprobs")
            if not ranks:
                raise _wrong(self.url, "gives no prompt_logprobs", "Serve the draft with vLLM")
            wanted = list(enumerate(text.written))[1:]
            return [ranks[len(text.prompt) + i][str(token)]["rank"] == 1 for i, token in wanted]

        return dict.fromkeys(range(1, LONGEST + 1), Positions(runs(self._bank.bits(text, ask))))

    def close(self) -> None:
        """See ``Draft``."""

    def _ask(self, route: str, body: dict[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        request = urllib.request.Request(  # noqa: S310 - http and https alone come here
            self.url + route, data, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as reply:  # noqa: S310
                answer: dict[str, Any] = json.load(reply)
        except (OSError, urllib.error.HTTPError, http.client.HTTPException, ValueError) as error:
            raise EnvironmentFault(
                f"{self.url}{route}: {error}", remedy="Look at the draft's server"
            ) from None
        return answer


def _wrong(name: str, problem: str, remedy: str) -> BadInputError:
    return BadInputError("command line", [Mistake("--draft", name, problem, remedy)])
