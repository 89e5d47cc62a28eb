"""The text in one choice of a chunk, in the fields that servers and proxies put it in."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks")
"""Fields of a delta that carry reasoning. A proxy may repeat one in another: the first that has text is
read."""

ANSWER = ("content", "text", "refusal")
"""Fields of a delta (chat) or of a choice (completions) that carry the answer."""

CALLS = ("tool_calls", "function_call")

_PARTS = ("text", "thinking", "refusal", "summary", "content")
"""Fields of a part, where a field is a list of parts."""

_SILENT = frozenset({"role", "name", "annotations", "provider_specific_fields", "extra_content", "signature"})
"""Fields of a delta that are no part of the answer."""


_QUIET_IN_DELTA = _SILENT | {"content"}
_LOUD_IN_CHOICE = frozenset({*REASONING, *CALLS, "content", "refusal"})


class Read(NamedTuple):
    """What a choice says.

    Attributes:
        text: reasoning, answer and calls, in this order.
        reasoned: whether reasoning is among it.
        unread: names of fields that hold something and are not known.
    """

    text: str
    reasoned: bool
    unread: tuple[str, ...]


def read(choice: dict[str, Any]) -> Read:
    """Reads a choice of either layout.

    Raises:
        AttributeError, TypeError, ValueError: the layout is another one.
    """
    delta = cast("dict[str, Any]", choice.get("delta") or {})
    plain = _plain(choice, delta)
    if plain is not None:
        return plain
    fields = delta or choice
    reasoning = next((text for name in REASONING if (text := _text(fields.get(name)))), "")
    answer = "".join(_text(fields.get(name)) for name in ANSWER)
    calls = cast("list[dict[str, Any]]", fields.get("tool_calls") or [])
    called = [cast("dict[str, Any]", call.get("function") or call.get("custom") or {}) for call in calls]
    said = "".join(_call(call) for call in [*called, fields.get("function_call") or {}])
    known = {*REASONING, *ANSWER, *CALLS, *_SILENT}
    unread = [name for name, value in delta.items() if name not in known and _holds(value)]
    unread += [name for name in (*REASONING, *ANSWER) if _holds(fields.get(name)) and not _text(fields[name])]
    return Read(reasoning + answer + said, bool(reasoning), tuple(unread))


def _plain(choice: dict[str, Any], delta: dict[str, Any]) -> Read | None:
    """What nearly every event says, the answer's text alone, told without a look at every known field."""
    if delta:
        text = delta.get("content")
        other = any(value and name not in _QUIET_IN_DELTA for name, value in delta.items())
    else:
        text = choice.get("text")
        other = any(value and name in _LOUD_IN_CHOICE for name, value in choice.items())
    return Read(text, False, ()) if not other and isinstance(text, str) else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(part) for part in cast("list[Any]", value))
    if isinstance(value, dict):
        part = cast("dict[str, Any]", value)
        return next((text for name in _PARTS if (text := _text(part.get(name)))), "")
    return ""


def _call(call: dict[str, Any]) -> str:
    return "".join(call[name] for name in ("name", "arguments", "input") if isinstance(call.get(name), str))


def _holds(value: Any) -> bool:
    """Whether a field holds something that could be part of an answer: numbers and flags do not."""
    return bool(value) and isinstance(value, str | list | dict)
