"""Drafts to forecast: look-up in the context, a model in llama.cpp, a model behind an endpoint."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from specdec.analysis.replay import runs
from specdec.errors import EnvironmentFault
from specdec.forecast.bits import Bank, Kept, Positions
from specdec.forecast.endpoints import open_endpoint, require_same_model, wrong_draft
from specdec.forecast.lookup import LONGEST, find_matches, matched_tokens
from specdec.forecast.model import LlamaModel, digest, engine
from specdec.forecast.shipped import MODEL, PACKAGED_FORM, packaged
from specdec.forecast.tokens import Tokenizer, Tokens
from specdec.forecast.weights import ready

BITS = "forecast"
"""Folder in the cache: what drafts said about texts."""

Q4_0: Final = "Q4_0"
SHIPPED_FORMS = ("", Q4_0, PACKAGED_FORM)
"""What may stand behind ``shipped:``; nothing is Q4_0."""


class UntoldError(ValueError):
    """What a draft that samples would keep cannot be told of an answer."""

    def __init__(self) -> None:
        super().__init__("sampled, and no log-probabilities after temperature and top-p are logged")


class Draft(Protocol):
    """What proposes.

    Attributes:
        name: as a reader knows it.
        rests_on: engine and weights, in words.
        look_up: whether it proposes only where it finds something.
        lanes: texts that it is best asked about at the same time.
    """

    name: str
    rests_on: str
    look_up: bool
    lanes: int

    def kept(self, text: Tokens) -> Kept:
        """What is kept at each position of a text after its first token.

        Raises:
            ValueError: this text cannot be read by this draft; the message says why.
        """
        ...

    def close(self) -> None:
        """Gives back what it holds."""
        ...


def open_draft(
    name: str,
    *,
    cache: Path,
    tokenizer: Tokenizer | None,
    samples: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
    access: Mapping[str, Any] | None = None,
) -> Draft:
    """A draft by its name: ``ngram:N``, ``shipped``, a GGUF file or a folder with one, or an address.

    ``shipped`` is the small model in Q4_0, ``shipped:Q4_1`` the same weights as the package has them, which
    the rehearsal serves as its draft: the two choose differently now and then.

    Args:
        name: of the draft.
        cache: this product's folder in the user's cache: it keeps what a draft said about a text, and the
            shipped model's weights.
        tokenizer: the target's; the draft's vocabulary is held against it, or what both make of a text where
            the target's is behind a server.
        samples: whether a draft model draws its proposals as the target draws its tokens. By default it
            proposes the likeliest.
        on_progress: told what takes long.
        access: of an address, see ``endpoints.Server``.

    Raises:
        BadInputError: no such draft, one whose likelihoods are not to be had, one that needs the target's
            hidden states, or another vocabulary.
    """
    kind, _, rest = name.partition(":")
    if kind == "ngram":
        if not rest.isdecimal() or not 1 <= int(rest) <= LONGEST:
            raise wrong_draft(name, f"does not name a length from 1 to {LONGEST}", "Write ngram:3")
        return LookUp(int(rest))
    if kind.lower() in ("eagle", "eagle3", "medusa", "mtp", "dflash"):
        raise wrong_draft(
            name,
            "drafts from the target's hidden states, which no logged text contains",
            "Forecast a standalone draft model or look-up; measure this one",
        )
    if kind in ("http", "https"):
        if samples:
            raise wrong_draft(
                name,
                "tells no probabilities after temperature and top-p, which a draft that samples needs",
                "Name its GGUF file, or leave --sampling out",
            )
        return open_endpoint(name, cache / BITS, tokenizer, **(access or {}))
    return _local(name, cache, tokenizer, on_progress, samples=samples)


def _local(
    name: str,
    cache: Path,
    tokenizer: Tokenizer | None,
    on_progress: Callable[[str], None],
    *,
    samples: bool,
) -> Draft:
    kind, _, form = name.partition(":")
    shipped = kind == "shipped" and form in SHIPPED_FORMS
    path = _shipped(form, cache, on_progress) if shipped else Path(name)
    if path.is_dir():
        files = sorted(path.glob("*.gguf"))
        if len(files) != 1:
            raise wrong_draft(name, f"holds {len(files)} GGUF files", "Name the file")
        path = files[0]
    if not path.is_file():
        raise wrong_draft(
            name,
            "is not a file",
            "Write ngram:N, shipped, a GGUF file or folder, or an address",
        )
    _require_memory(path)
    model = LlamaModel(path)
    if isinstance(tokenizer, LlamaModel):
        if path != tokenizer.path:
            require_same_vocabulary(name, model, tokenizer)
    elif tokenizer is not None:
        require_same_model(name, model, tokenizer)
    bank = Bank(cache / BITS, f"{digest(path)}-{engine()}")
    shown = f"{MODEL} ({form or Q4_0})" if shipped else path.stem
    return (SamplingModel if samples else Model)(shown, model, bank)


def _shipped(form: str, cache: Path, on_progress: Callable[[str], None]) -> Path:
    """The small model's file in one of ``SHIPPED_FORMS``."""
    return packaged() if form == PACKAGED_FORM else ready(cache / "weights", Q4_0, on_progress).path


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
    raise wrong_draft(
        name,
        f"has another vocabulary: {draft.vocabulary} tokens, and the target has {target.vocabulary}{where}",
        "Name a draft of the target's family, or the target's tokenizer with --tokenizer",
    )


class LookUp:
    """See ``forecast.lookup``."""

    look_up = True
    lanes = 1

    def __init__(self, length: int) -> None:
        self._length = length
        self.name = f"look-up of {length} tokens"
        self.rests_on = (
            "look-up as llama.cpp's ngram_simple does it; other servers may choose another place. It proposes"
            " what followed there, whatever the answer's temperature"
        )

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


class Model:
    """A draft model read in llama.cpp, see ``forecast.model``."""

    look_up = False
    proposes = "It proposes its likeliest token, whatever the answer's temperature"

    def __init__(self, name: str, model: LlamaModel, bank: Bank) -> None:
        self.name = name
        self.lanes = model.lanes
        self._model = model
        self._bank = bank
        rests_on = f"{model.path.name} in {engine()}: another engine or quantization may choose differently"
        self.rests_on = f"{rests_on}. {self.proposes}"

    def kept(self, text: Tokens) -> Kept:
        """See ``Draft``."""

        def ask() -> list[bool]:
            chosen = self._model.choices(text.prompt, text.written)
            return [token == right for token, right in zip(chosen, text.written[1:], strict=True)]

        return dict.fromkeys(range(1, LONGEST + 1), Positions(runs(self._bank.bits(text, ask))))

    def close(self) -> None:
        """See ``Draft``."""
        self._model.close()


class SamplingModel(Model):
    """A draft model that draws its proposals with the target's temperature and top-p.

    The target keeps a proposal with the chance min(1, p / q), where q drew it and p is the target's own
    (Leviathan et al., arXiv 2211.17192, algorithm 1). Given that a token came out, it was a kept proposal
    with the chance min(p, q) / p = min(1, q / p): what a logged answer tells where p was logged.
    """

    proposes = (
        "It draws its proposals with the answer's temperature and top-p: tokens per step are expected ones,"
        " over what it may draw"
    )

    def kept(self, text: Tokens) -> Kept:
        """See ``Draft``. An answer at temperature 0 is drafted greedily.

        Raises:
            ValueError: neither is the answer greedy, nor are its log-probabilities known.
        """
        answer = text.answer
        if answer.temperature == 0:
            return super().kept(text)
        if answer.temperature is None or len(answer.logprobs) != len(text.written):
            raise UntoldError
        temperature, top_p = answer.temperature, 1.0 if answer.top_p is None else answer.top_p

        def ask() -> list[float]:
            return self._model.likelihoods(text.prompt, text.written, temperature=temperature, top_p=top_p)

        drafted = self._bank.numbers(text, (temperature, top_p), ask)
        chance = np.minimum(1.0, drafted / np.exp(np.asarray(answer.logprobs[1:])))
        nothing = np.zeros(len(chance), dtype=np.int64)
        return dict.fromkeys(range(1, LONGEST + 1), Positions(nothing, chance=chance))
