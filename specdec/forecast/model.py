"""A draft model read in llama.cpp, the engine it is served in: its greedy choice at every position of a text.

One pass tells what thousands of steps would. With the fused attention kernel and no more than ``MOST``
tokens at a time, llama.cpp computes each position alike whether it comes alone or with others (measured: the
same logits, bit for bit, for 1 to 63 tokens; from 64 on another kernel rounds differently). So the choices
are those of the running server, which steps through its own proposals.

xllamacpp offers only the server; the library inside it also exports llama.cpp's C interface
(include/llama.h), which is used here through ctypes. The package is pinned, and what is known of its
structures is checked before they are used.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import importlib.metadata
import os
import queue
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from specdec.errors import EnvironmentFault
from specdec.extras import remedy
from specdec.forecast.tokens import render, turn_end

_Taken = TypeVar("_Taken")

MOST = 63
"""Tokens that are computed together, see the module."""

_LANES = 4
_ROOM = 1024
"""Tokens of the smallest context: every lane keeps one."""

_PROMPT = 512
"""Tokens of a prompt that the server computes together (``n_ubatch``), with the other kernel."""
_DECODE = 1


_COUNTS = ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq", "n_outputs_max", "n_outputs_max_per_seq")
_KINDS = ("ctx_type", "rope_scaling_type", "pooling_type", "attention_type", "flash_attn_type")


class _ContextParams(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        *((name, ctypes.c_uint32) for name in _COUNTS),
        *((name, ctypes.c_int32) for name in ("n_threads", "n_threads_batch", *_KINDS)),
        # Of rope, callbacks and whatever a later version appends nothing is set.
        ("rest", ctypes.c_byte * 512),
    ]


class _ModelParams(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("before", ctypes.c_byte * 72),
        ("vocab_only", ctypes.c_bool),
        ("rest", ctypes.c_byte * 439),
    ]


_DEFAULTS = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_threads": 4,
    "n_threads_batch": 4,
    "flash_attn_type": -1,
}


def engine() -> str:
    """Name and version of the engine, part of what a forecast rests on."""
    return f"llama.cpp in xllamacpp {importlib.metadata.version('xllamacpp')}, fused attention, one sequence"


def digest(path: Path) -> str:
    """SHA-256 of the weights."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class LlamaModel:
    """A GGUF file opened in llama.cpp: tokenizer, and greedy choices; see ``opened``.

    Args:
        path: GGUF file.
        context: longest text in tokens; the model's own limit where that is less.
        threads: of a pass; by default the machine's cores are shared by ``lanes`` texts.
        weights: whether they are read; without them it only tokenizes.

    Attributes:
        lanes: texts that are best read at the same time, each in a thread of its own: threads of one pass
            wait for each other at every layer.

    Raises:
        EnvironmentFault: the engine is not installed or of another layout, or it cannot load the file.
    """

    def __init__(
        self, path: Path, *, context: int = 16384, threads: int | None = None, weights: bool = True
    ) -> None:
        self._library = _library()
        self.path = path
        params = self._library.llama_model_default_params()
        params.vocab_only = not weights
        self._model = self._library.llama_model_load_from_file(str(path).encode(), params)
        if not self._model:
            raise EnvironmentFault(
                f"llama.cpp cannot load {path}", remedy="Name a GGUF file that fits into memory"
            )
        self._vocab = self._library.llama_model_get_vocab(self._model)
        self.vocabulary: int = self._library.llama_vocab_n_tokens(self._vocab)
        self.context = min(context, int(self._library.llama_model_n_ctx_train(self._model)))
        cores = len(os.sched_getaffinity(0))
        self.lanes = min(_LANES, cores)
        self._threads = threads or cores // self.lanes
        self._idle: queue.SimpleQueue[_Reader] = queue.SimpleQueue()

    def close(self) -> None:
        """Gives the memory back."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()
        if self._model:
            self._library.llama_model_free(self._model)
        self._model = None

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Tokens of a text.

        Args:
            text: to tokenize.
            special: whether names of special tokens in it stand for these, and whether the ones are added
                that begin a text: so for a prompt, not for an answer.
        """
        encoded = text.encode()
        room = len(encoded) + 8
        tokens = (ctypes.c_int32 * room)()
        count = self._library.llama_tokenize(
            self._vocab, encoded, len(encoded), tokens, room, special, special
        )
        return list(tokens[: max(0, count)])

    def piece(self, token: int) -> str:
        """Text of one token of the vocabulary."""
        text: bytes | None = self._library.llama_vocab_get_text(self._vocab, token)
        return (text or b"").decode(errors="replace")

    def token(self, piece: str) -> int | None:
        """The token that stands for this text by itself, as a server sends it; None where none does."""
        return self._tokens.get(piece.encode())

    @functools.cached_property
    def _tokens(self) -> dict[bytes, int]:
        room = ctypes.create_string_buffer(512)
        tokens: dict[bytes, int] = {}
        # Of two tokens with one text the first stands: bytes of their own come after whole words.
        for token in reversed(range(self.vocabulary)):
            size = self._library.llama_token_to_piece(self._vocab, token, room, len(room), 0, False)
            if size > 0:
                tokens[room.raw[:size]] = token
        return tokens

    @property
    def end(self) -> int:
        """The token that ends a text."""
        token: int = self._library.llama_vocab_eos(self._vocab)
        return token

    def template(self) -> str | None:
        """The chat template that the file carries, in Jinja; None without one."""
        text: bytes | None = self._library.llama_model_chat_template(self._model, None)
        return text.decode() if text else None

    def conversation(self, messages: Iterable[tuple[str, str]]) -> list[int] | None:
        """See ``tokens.Tokenizer``."""
        source = self.template()
        return None if source is None else self.tokenize(render(source, messages), special=True)

    @property
    def turn_end(self) -> int:
        """See ``tokens.Tokenizer``."""
        return self._behind_an_answer

    @functools.cached_property
    def _behind_an_answer(self) -> int:
        source = self.template()
        return self.end if source is None else turn_end(source, self)

    def choices(self, prompt: Sequence[int], answer: Sequence[int]) -> list[int]:
        """The token that the model would write at each position of an answer after its first.

        Args:
            prompt: tokens of the prompt.
            answer: tokens of the answer.

        Raises:
            ValueError: together they are longer than the context.
        """
        return self._read(prompt, answer, lambda logits: int(logits.argmax()))

    def _read(
        self, prompt: Sequence[int], answer: Sequence[int], take: Callable[[NDArray[np.float32]], _Taken]
    ) -> list[_Taken]:
        """What ``take`` makes of the logits behind each token of an answer but the last."""
        known = answer[:-1]
        if len(prompt) + len(known) > self.context:
            raise ValueError(f"{len(prompt) + len(answer)} tokens, and the context holds {self.context}")
        with self._borrowed(len(prompt) + len(known)) as reader:
            reader.forget()
            for start in range(0, len(prompt), _PROMPT):
                reader.go_on(prompt[start : start + _PROMPT], start, wanted=False)
            taken: list[_Taken] = []
            for start in range(0, len(known), MOST):
                part = known[start : start + MOST]
                reader.go_on(part, len(prompt) + start, wanted=True)
                taken += [take(reader.logits(place, self.vocabulary)) for place in range(len(part))]
        return taken

    @contextlib.contextmanager
    def _borrowed(self, tokens: int) -> Generator[_Reader]:
        """A context with room for so many tokens, which no other thread has meanwhile."""
        try:
            reader = self._idle.get_nowait()
        except queue.Empty:
            reader = None
        if reader is not None and reader.room < tokens:
            reader.close()
            reader = None
        if reader is None:
            room = min(self.context, max(_ROOM, 1 << (tokens - 1).bit_length()))
            reader = _Reader(self._library, self._model, room, self._threads)
        try:
            yield reader
        finally:
            self._idle.put(reader)

    def likelihoods(
        self, prompt: Sequence[int], answer: Sequence[int], *, temperature: float, top_p: float
    ) -> list[float]:
        """The probability with which the model would draw the token that stands at each position of an answer
        after its first.

        Args:
            prompt: tokens of the prompt.
            answer: tokens of the answer.
            temperature: above 0.
            top_p: the likeliest tokens that together reach this share are drawn from; 1 leaves all.

        Raises:
            ValueError: together they are longer than the context.
        """
        following = iter(answer[1:])

        def likelihood(logits: NDArray[np.float32]) -> float:
            return drawn_with(logits, next(following), temperature=temperature, top_p=top_p)

        return self._read(prompt, answer, likelihood)


class _Reader:
    """A context of a model: reads one text at a time.

    Args:
        library: llama.cpp.
        model: opened there.
        room: tokens of the longest text.
        threads: of a pass.
    """

    def __init__(self, library: Any, model: Any, room: int, threads: int) -> None:
        self.room = room
        self._library = library
        params = library.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = room, 2048, _PROMPT
        params.n_outputs_max = params.n_outputs_max_per_seq = MOST
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = 1
        self._context = library.llama_init_from_model(model, params)
        if not self._context:
            raise EnvironmentFault(
                f"llama.cpp cannot open a context of {room} tokens",
                remedy="Name a smaller draft: it does not fit",
            )
        self._batch = library.llama_batch_ext_init(self._context)

    def close(self) -> None:
        """Gives the memory back."""
        self._library.llama_batch_ext_free(self._batch)
        self._library.llama_free(self._context)

    def forget(self) -> None:
        """Begins another text."""
        self._library.llama_memory_clear(self._library.llama_get_memory(self._context), True)

    def go_on(self, tokens: Sequence[int], start: int, *, wanted: bool) -> None:
        """Reads tokens from a position on; whether their logits are wanted."""
        library, batch = self._library, self._batch
        library.llama_batch_ext_clear(batch)
        for number, token in enumerate(tokens):
            place = library.llama_batch_ext_add_token(batch, 0, token)
            position = ctypes.c_int32(start + number)
            if place != number or not library.llama_batch_ext_set_pos(batch, place, ctypes.byref(position)):
                raise EnvironmentFault(
                    f"llama.cpp refuses token {token}", remedy="Name a draft with the target's vocabulary"
                )
            if wanted or number == len(tokens) - 1:
                library.llama_batch_ext_set_output_logits(batch, place, True)
        if (status := library.llama_process(self._context, _DECODE, batch)) != 0:
            raise EnvironmentFault(f"llama.cpp ended a pass with status {status}", remedy="Try again")

    def logits(self, place: int, vocabulary: int) -> NDArray[np.float32]:
        """Of one token of the last pass; a view that the next pass overwrites."""
        logits = self._library.llama_get_logits_ith(self._context, place)
        values: NDArray[np.float32] = np.ctypeslib.as_array(logits, (vocabulary,))
        return values


def drawn_with(logits: NDArray[np.float32], token: int, *, temperature: float, top_p: float) -> float:
    """Probability of a token after temperature and top-p, as vLLM and llama.cpp apply them: the likeliest
    tokens are kept until their sum reaches ``top_p``, the one that reaches it among them.
    """
    scaled = logits.astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    weights /= weights.sum()
    likelier = weights[weights > weights[token]].sum()
    if likelier >= top_p:
        return 0.0
    if top_p >= 1:
        return float(weights[token])
    ordered = np.sort(weights)[::-1]
    kept = int(np.searchsorted(np.cumsum(ordered), top_p)) + 1
    return float(weights[token] / ordered[:kept].sum())


@contextlib.contextmanager
def opened(path: Path, **settings: Any) -> Generator[LlamaModel]:
    """A model for as long as it is needed."""
    model = LlamaModel(path, **settings)
    try:
        yield model
    finally:
        model.close()


_log_type = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_silent = _log_type(lambda *_: None)


def _library() -> Any:
    # Threads that spin while they wait take the processor from others; OpenMP reads this when loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        module = importlib.import_module("xllamacpp.xllamacpp")
    except ImportError:
        raise EnvironmentFault("The package xllamacpp is not installed", remedy=remedy("forecast")) from None
    library: Any = ctypes.CDLL(str(module.__file__))
    pointer, number, flag = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "llama_log_set": (None, [_log_type, pointer]),
        "llama_context_default_params": (_ContextParams, []),
        "llama_model_default_params": (_ModelParams, []),
        "llama_model_load_from_file": (pointer, [ctypes.c_char_p, _ModelParams]),
        "llama_init_from_model": (pointer, [pointer, _ContextParams]),
        "llama_model_free": (None, [pointer]),
        "llama_free": (None, [pointer]),
        "llama_model_get_vocab": (pointer, [pointer]),
        "llama_model_n_ctx_train": (number, [pointer]),
        "llama_model_chat_template": (ctypes.c_char_p, [pointer, ctypes.c_char_p]),
        "llama_vocab_n_tokens": (number, [pointer]),
        "llama_vocab_get_text": (ctypes.c_char_p, [pointer, number]),
        "llama_vocab_eos": (number, [pointer]),
        "llama_tokenize": (number, [pointer, ctypes.c_char_p, number, pointer, number, flag, flag]),
        "llama_token_to_piece": (number, [pointer, number, ctypes.c_char_p, number, number, flag]),
        "llama_get_memory": (pointer, [pointer]),
        "llama_memory_clear": (None, [pointer, flag]),
        "llama_batch_ext_init": (pointer, [pointer]),
        "llama_batch_ext_free": (None, [pointer]),
        "llama_batch_ext_clear": (None, [pointer]),
        "llama_batch_ext_add_token": (number, [pointer, number, number]),
        "llama_batch_ext_set_pos": (flag, [pointer, number, ctypes.POINTER(number)]),
        "llama_batch_ext_set_output_logits": (flag, [pointer, number, flag]),
        "llama_process": (number, [pointer, ctypes.c_int, pointer]),
        "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), [pointer, number]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name, None)
        if function is None:
            raise _another(f"it has no {name}")
        function.restype, function.argtypes = result, arguments
    library.llama_log_set(_silent, None)
    defaults = library.llama_context_default_params()
    wrong = [name for name, value in _DEFAULTS.items() if getattr(defaults, name) != value]
    if wrong:
        raise _another(f"{', '.join(wrong)} are not where they were")
    return library


def _another(problem: str) -> EnvironmentFault:
    version = importlib.metadata.version("xllamacpp")
    return EnvironmentFault(
        f"xllamacpp {version} has another interface than the pinned version: {problem}", remedy="Run: uv sync"
    )
