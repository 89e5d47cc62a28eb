"""From a logged answer to the tokens that the target read and wrote: chat template, tokenizer, and checks."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from specdec.errors import BadInputError, Mistake
from specdec.forecast.answers import Answer


class Tokenizer(Protocol):
    """Tokenizer and chat template of the target."""

    @property
    def end(self) -> int:
        """The token that ends a text. A chat template may end an answer with another."""
        ...

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Tokens of a text; ``special`` for a prompt, where names of special tokens stand for these."""
        ...

    def token(self, piece: str) -> int | None:
        """The token that stands for this text by itself; None where none does."""
        ...

    def conversation(self, messages: Iterable[tuple[str, str]]) -> list[int] | None:
        """Tokens of a conversation, (role, content) each, up to the answer; None without a chat template.

        Raises:
            BadInputError: the template refuses it.
        """
        ...

    @property
    def turn_end(self) -> int:
        """The token that ends an answer in a conversation."""
        ...


@dataclass(frozen=True, slots=True)
class Tokens:
    """One answer in tokens.

    Attributes:
        answer: as logged.
        prompt: tokens of the prompt.
        written: tokens of the answer.
        exact: whether these are the ones that the target wrote. Else they are the text tokenized again, which
            may come out otherwise with as many tokens.
    """

    answer: Answer
    prompt: tuple[int, ...]
    written: tuple[int, ...]
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Tokenized:
    """Answers in tokens.

    Attributes:
        texts: those that hold.
        matched: of these, the ones whose logged counts agree.
        exact: of these, the ones whose tokens are known one by one.
        unchecked: of these, the ones without logged counts.
        left_out: answers that are not used, by reason.
    """

    texts: tuple[Tokens, ...]
    matched: int
    exact: int
    unchecked: int
    left_out: Counter[str]


def tokenize(answers: Iterable[Answer], tokenizer: Tokenizer) -> Tokenized:
    """Renders every prompt, tokenizes it and its answer, and holds both against the server's counts.

    A text that comes out with another number of tokens was not written by this tokenizer, or has another
    template before it: it is left out.
    """
    texts: list[Tokens] = []
    left_out: Counter[str] = Counter()
    matched = unchecked = 0
    for answer in answers:
        prompt = (
            tokenizer.conversation(answer.messages)
            if answer.messages
            else tokenizer.tokenize(answer.prompt, special=True)
        )
        if prompt is None:
            left_out["the tokenizer has no chat template"] += 1
            continue
        counted = answer.completion_tokens
        pieces = _tokens_of(answer, tokenizer)
        exact = bool(pieces) and counted in (len(pieces), len(pieces) + (answer.finish == "stop"))
        written = pieces if exact else tokenizer.tokenize(answer.text, special=False)
        if answer.finish == "stop" and counted == len(written) + 1:
            written.append(tokenizer.turn_end if answer.messages else tokenizer.end)
        if answer.prompt_tokens is not None and answer.prompt_tokens != len(prompt):
            left_out["prompt has another number of tokens than logged: another template or tokenizer"] += 1
        elif counted is not None and counted != len(written):
            left_out["answer has another number of tokens than logged: another tokenizer"] += 1
        elif len(written) < 2:
            left_out["answer of a single token"] += 1
        else:
            texts.append(Tokens(answer, tuple(prompt), tuple(written), exact))
            known = counted is not None
            matched, unchecked = matched + known, unchecked + (not known)
    return Tokenized(tuple(texts), matched, sum(text.exact for text in texts), unchecked, left_out)


def _tokens_of(answer: Answer, tokenizer: Tokenizer) -> list[int]:
    """Tokens of the pieces that the target wrote one by one. A piece that is no token by itself is several,
    or the end of a character.
    """
    tokens: list[int] = []
    for piece in answer.pieces:
        token = tokenizer.token(piece)
        tokens += tokenizer.tokenize(piece, special=False) if token is None else [token]
    return tokens


def turn_end(source: str, tokenizer: Tokenizer) -> int:
    """The token that ends an answer: the first that a chat template puts behind one."""
    mark = "answer"
    try:
        turns = render(source, [("user", "question"), ("assistant", mark)], answering=False)
    except BadInputError:
        return tokenizer.end
    behind = tokenizer.tokenize(turns.rpartition(mark)[2], special=True)
    begin = tokenizer.tokenize("", special=True)
    return next(iter(behind[len(begin) :]), tokenizer.end)


def render(source: str, messages: Iterable[tuple[str, str]], *, answering: bool = True) -> str:
    """A conversation in a chat template, as transformers and llama.cpp render it.

    Args:
        source: the template.
        messages: (role, content).
        answering: whether the answer is to follow.

    Raises:
        BadInputError: the template refuses it.
    """
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> NoReturn:
        raise TemplateError(message)

    def now(form: str) -> str:
        return datetime.datetime.now().astimezone().strftime(form)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    globals_: dict[str, Any] = environment.globals
    globals_["raise_exception"] = refuse
    globals_["strftime_now"] = now
    turns = [{"role": role, "content": content} for role, content in messages]
    try:
        return environment.from_string(source).render(messages=turns, add_generation_prompt=answering)
    except TemplateError as error:
        raise BadInputError(
            "chat template",
            [Mistake("messages", turns[-1]["role"], f"are refused: {error}", "Leave these answers out")],
        ) from None
