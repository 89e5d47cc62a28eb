"""Reads an entry of a prompt file, in any of the usual shapes.

The shapes are those of vLLM's and SGLang's benchmark data (ShareGPT), of OpenAI's batch and chat requests, of
instruction data sets (Alpaca), and of Spec-Bench and MT-Bench; docs/prompts.md lists their fields.
"""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from specdec.errors import Mistake
from specdec.text import has_halves, is_printable, shortened

if TYPE_CHECKING:
    from specdec.prompts.files import Item

MOST_TOKENS = 1_000_000
"""Longest answer that can be asked for."""

_NAMES: dict[str, tuple[str, ...]] = {
    "prompt": ("prompt", "text", "input", "question", "query"),
    "id": ("id", "custom_id", "question_id", "request_id", "prompt_id"),
    "test_case": ("test_case", "category", "task"),
    "class": ("class",),
    "system": ("system", "system_prompt"),
    "output_tokens": ("output_tokens", "max_tokens", "max_completion_tokens", "max_new_tokens", "output_len"),
    "temperature": ("temperature",),
}
"""What a prompt has, to the names that files give it, the usual one first."""

TEXT_NAMES = frozenset((*_NAMES["prompt"], "instruction"))
"""Names of a column of prompts."""

_ANSWERS = frozenset(("output", "completion", "response", "answer", "reference", "chosen", "rejected"))
"""Fields of data sets that hold what another model answered: of no use here."""

_REQUEST = frozenset(("model", "stream", "stream_options", "user", "metadata", "store", "n"))
"""Fields of a request that this client sets itself."""

_SETTINGS = frozenset(
    (
        *("frequency_penalty", "functions", "logit_bias", "presence_penalty", "repetition_penalty", "stop"),
        *("response_format", "tool_choice", "tools", "top_k", "top_p"),
    )
)

KNOWN = frozenset(name for names in _NAMES.values() for name in names) | {"instruction"} | _ANSWERS
"""All names that are understood in a table."""

_ROLES = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bing", "bard", "model"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
}
_CONVERSATIONS = ("conversations", "conversation", "messages")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation.

    Attributes:
        role: ``system``, ``user`` or ``assistant``.
        content: what is said.
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """What an entry says; None where it says nothing. See ``Prompt``."""

    text: str
    turns: tuple[Turn, ...]
    id: str | None
    test_case: str | None
    prompt_class: str | None
    system: str | None
    output_tokens: int | None
    temperature: float | None


def fields_of(item: Item, column: str | None, mistakes: list[Mistake]) -> Fields | None:
    """What an entry says, or None where it is wrong; then every reason is added to ``mistakes``.

    Args:
        item: the entry.
        column: the field that holds the prompt, or None for the usual names.
        mistakes: of the whole file.
    """
    reader = _Reader(item.place, item.table)
    fields = reader.read(item.value, column)
    mistakes.extend(reader.mistakes)
    return None if reader.mistakes else fields


class _Reader:
    def __init__(self, place: str, table: bool) -> None:
        self._place = place
        self._table = table
        self.mistakes: list[Mistake] = []

    def read(self, value: object, column: str | None) -> Fields | None:
        if isinstance(value, str):
            value = {"prompt": value}
        if not isinstance(value, dict):
            self._wrong("", value, "is not a JSON object", 'Write {"prompt": "..."}')
            return None
        raw = self._unpacked(cast("dict[str, Any]", value))
        if raw is None:
            return None
        foreign = [name for name in _CONVERSATIONS if name in raw]
        turns: tuple[Turn, ...] = ()
        if "turns" in raw:
            text = self._first_turn(raw["turns"])
        elif foreign:
            text, turns = self._conversation(foreign[0], raw[foreign[0]])
            self._no_settings(raw)
        else:
            text = self._prompt(raw, column)
            self._no_others(raw, column)
        system = self._text(raw, "system")
        if system is None and turns and turns[0].role == "system":
            system, turns = turns[0].content, turns[1:]
        fields = Fields(
            text=text or "",
            turns=turns,
            id=self._name(raw, "id"),
            test_case=self._name(raw, "test_case"),
            prompt_class=self._name(raw, "class"),
            system=system,
            output_tokens=self._output_tokens(raw),
            temperature=self._temperature(raw),
        )
        for said in (fields.text, fields.system or "", *(turn.content for turn in turns)):
            if has_halves(said):
                problem = "contains half of a character (a lone surrogate), which cannot be sent to a server"
                self._wrong("prompt", shortened(said, 60), problem, "Remove it")
        return fields

    def _unpacked(self, raw: dict[str, Any]) -> dict[str, Any] | None:
        """The request inside a line of an OpenAI batch, or the entry itself."""
        body = raw.get("body")
        if not isinstance(body, dict):
            return raw
        url = raw.get("url", "/v1/chat/completions")
        if not str(url).endswith("/completions"):
            self._wrong("url", url, "is not a request for text", "Keep the lines that ask for completions")
            return None
        request = {key: value for key, value in cast("dict[str, Any]", body).items() if key not in _REQUEST}
        allowed = {name for names in _NAMES.values() for name in names} | {"messages"}
        for name in sorted(request.keys() - allowed):
            problem = "changes what is generated and is not supported here"
            self._wrong(f"body.{name}", request[name], problem, "Leave it out")
        return {"id": raw["custom_id"], **request} if "custom_id" in raw else request

    def _conversation(self, field: str, value: object) -> tuple[str | None, tuple[Turn, ...]]:
        """What the user says last, and what was said before; an answer after that is not sent."""
        entries = _list(value)
        turns: list[Turn] = []
        for index, entry in enumerate(entries):
            turn = self._turn(f"{field}[{index}]", entry)
            if turn is None:
                return None, ()
            turns.append(turn)
        while turns and turns[-1].role != "user":
            turns.pop()
        if not turns:
            self._wrong(field, value, "contains nothing that a user says", "Add a message of the user")
            return None, ()
        return turns[-1].content, tuple(turns[:-1])

    def _turn(self, field: str, value: object) -> Turn | None:
        entry = _object(value)
        role = _ROLES.get(str(entry.get("role", entry.get("from", ""))).lower())
        content: Any = entry.get("content", entry.get("value", entry.get("text")))
        if role is None:
            problem = "is not a message of a system, user or assistant"
            self._wrong(field, value, problem, 'Write {"role": "user", "content": "..."}')
            return None
        if isinstance(content, list):
            parts = cast("list[Any]", content)
            texts = [_text_of_part(part) for part in parts]
            if None in texts:
                self._wrong(field, value, "holds more than text", "Keep the parts of type text only")
                return None
            content = "".join(text for text in texts if text is not None)
        if not isinstance(content, str) or not content.strip():
            self._wrong(field, value, "says nothing", "Give it a text, or leave it out")
            return None
        return Turn(role, content)

    def _first_turn(self, value: object) -> str | None:
        turns = _list(value)
        if not turns or not isinstance(turns[0], str) or not turns[0].strip():
            self._wrong("turns", value, "is not a list of texts", "Write what the user says first")
            return None
        return turns[0]

    def _prompt(self, raw: dict[str, Any], column: str | None) -> str | None:
        if column is not None:
            return self._said(column, raw.get(column))
        if "instruction" in raw:
            text = self._said("instruction", raw["instruction"])
            more = raw.get("input")
            return f"{text}\n\n{more}" if text and isinstance(more, str) and more.strip() else text
        names = [name for name in _NAMES["prompt"] if name in raw]
        if len(names) > 1:
            remedy = "Leave one, or name it with --prompt-column"
            self._wrong(names[1], raw[names[1]], f"is a prompt beside {names[0]}", remedy)
            return None
        name = names[0] if names else "prompt"
        if not names:
            self._wrong("prompt", None, "is missing", "Add the text to send")
            return None
        return self._said(name, raw[name])

    def _said(self, name: str, value: object) -> str | None:
        if not isinstance(value, str) or not value.strip():
            self._wrong(name, value, "is empty or not a text", "Correct the value")
            return None
        return value

    def _no_others(self, raw: dict[str, Any], column: str | None) -> None:
        if column is not None:
            # Whoever names the field of a data set does not want its others read.
            return
        for name in raw.keys() - KNOWN:
            close = difflib.get_close_matches(name, _NAMES, n=1)
            remedy = f"Did you mean {close[0]!r}?" if close else f"Use {', '.join(_NAMES)}"
            self._wrong(name, raw[name], "is not a field of a prompt", remedy)

    def _no_settings(self, raw: dict[str, Any]) -> None:
        for name in sorted(raw.keys() & _SETTINGS):
            problem = "changes what is generated and is not supported here"
            self._wrong(name, raw[name], problem, "Leave it out")

    def _one(self, raw: dict[str, Any], field: str) -> tuple[str, object]:
        """The name under which an entry gives a field, and the value; None where it does not."""
        name = next((name for name in _NAMES[field] if name in raw), field)
        return name, raw.get(name)

    def _text(self, raw: dict[str, Any], field: str) -> str | None:
        name, value = self._one(raw, field)
        if name not in raw:
            return None
        if isinstance(value, str) and value.strip():
            return value
        self._wrong(name, value, "is empty or not a text", _LEAVE)
        return None

    def _name(self, raw: dict[str, Any], field: str) -> str | None:
        name, value = self._one(raw, field)
        if isinstance(value, int) and not isinstance(value, bool) and field == "id":
            value = str(value)
        if name not in raw:
            return None
        if not isinstance(value, str) or not value.strip():
            self._wrong(name, value, "is not a name", _LEAVE)
            return None
        if not is_printable(value) or len(value) > _LONGEST_NAME:
            problem = f"is not a name of up to {_LONGEST_NAME} characters without line breaks and controls"
            self._wrong(name, shortened(value, 60), problem, "Give it a plain name")
            return None
        return value

    def _output_tokens(self, raw: dict[str, Any]) -> int | None:
        name, value = self._one(raw, "output_tokens")
        if name not in raw:
            return None
        if self._table and isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            self._wrong(name, value, "is not a whole number", _LEAVE)
            return None
        if not 2 <= value <= MOST_TOKENS:
            problem = f"is not within 2 and {MOST_TOKENS}"
            self._wrong(
                name, value if abs(value) < 1e18 else "...", problem, "Time per token needs two tokens"
            )
        return value

    def _temperature(self, raw: dict[str, Any]) -> float | None:
        name, value = self._one(raw, "temperature")
        if name not in raw:
            return None
        if self._table and isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = float(value)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            self._wrong(name, value, "is not a number", _LEAVE)
            return None
        if not 0 <= value <= 2:
            self._wrong(
                name,
                value if abs(value) < 1e18 else "...",
                "is not within 0 and 2",
                "Use 0 for greedy decoding",
            )
            return None
        return float(value)

    def _wrong(self, field: str, value: object, problem: str, remedy: str) -> None:
        self.mistakes.append(Mistake(f"{self._place} {field}".rstrip(), value, problem, remedy))


_LEAVE = "Correct the value or leave the field out"
_LONGEST_NAME = 200


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text_of_part(part: object) -> str | None:
    fields = _object(part)
    text = fields.get("text")
    return text if fields.get("type") in ("text", "input_text") and isinstance(text, str) else None
