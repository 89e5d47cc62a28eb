"""A logged answer: what was asked, what was written, and what is known about both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

SAMPLED = "sampled at a temperature above 0: each draft says what it proposes then"
"""Note of such answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer with what came before it.

    Attributes:
        id: names it in the forecast.
        group: prompts that are meant to behave alike: a test case, else the layout's name.
        messages: (role, content) of the conversation before the answer; empty where ``prompt`` was sent.
        prompt: text sent as it is, without a chat template.
        text: what the target wrote.
        pieces: the text token by token where that is known; empty where it is not.
        prompt_tokens, completion_tokens: as the server counted; None where not logged.
        finish: the server's reason for the end; None where not logged.
        temperature, top_p: as sent; None where not logged.
        logprobs: of each token, natural logarithm, after temperature and top-p; empty where not logged.
    """

    id: str
    group: str
    messages: tuple[tuple[str, str], ...] = ()
    prompt: str = ""
    text: str
    pieces: tuple[str, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    logprobs: tuple[float, ...] = ()


@dataclass(slots=True)
class Sources:
    """What was read.

    Attributes:
        answers: usable ones.
        layouts: entries by the layout they were told to have.
        left_out: entries that are not used, by reason.
        notes: entries that are used although something is to be said of them, by what.
    """

    answers: list[Answer] = field(default_factory=list[Answer])
    layouts: Counter[str] = field(default_factory=Counter[str])
    left_out: Counter[str] = field(default_factory=Counter[str])
    notes: Counter[str] = field(default_factory=Counter[str])
