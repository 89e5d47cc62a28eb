"""The shipped tasks, and what counts as their right answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, cast

from specdec.prompts.sets import Prompt

ANSWER_TOKENS = 256
"""Most tokens of an answer: room to reason in a few sentences first."""

Kind = Literal["arithmetic", "extraction", "ordering", "counting"]
"""Arithmetic in words, extraction into JSON of a given schema, putting in order, counting."""

_LAST = re.compile(r"answer\W*?:(?:\*|\s)*([^\n]+)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Task:
    """One task.

    Attributes:
        id: unique in the set.
        kind: see ``Kind``.
        prompt: what is asked; it says in what form to answer.
        answer: the right one: a text, or the object that JSON must hold.
    """

    id: str
    kind: Kind
    prompt: str
    answer: str | dict[str, Any]

    def asked(self) -> Prompt:
        """The task as a prompt; its kind is the test case."""
        return Prompt(id=self.id, test_case=self.kind, prompt_class=self.kind, text=self.prompt)

    def right(self, text: str) -> bool:
        """Whether a text is a right answer.

        JSON must hold the same object, whatever surrounds it. Otherwise the text after the last ``Answer:``
        must contain the number and no other one, or be the list, apart from spaces, case and a full stop.
        """
        text = text.rpartition("</think>")[2]
        if isinstance(self.answer, dict):
            return next(_objects(text), None) == self.answer
        said = _LAST.findall(text)
        if not said:
            return False
        last = str(said[-1])
        if self.answer.isdigit():
            numbers = [float(number.replace(",", "")) for number in _NUMBER.findall(last)]
            return numbers == [float(self.answer)]
        return _listed(last) == _listed(self.answer)


def tasks() -> tuple[Task, ...]:
    """All of them."""
    text = (files("specdec.quality") / "shipped" / "tasks.jsonl").read_text(encoding="utf-8")
    return tuple(Task(**json.loads(line)) for line in text.splitlines())


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    for match in re.finditer(r"\{", text):
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield cast("dict[str, Any]", value)


def _listed(text: str) -> list[str]:
    return [part.strip(" .*`\"'[]()").lower() for part in text.split(",")]
