"""Texts: those of others made fit to be shown and stored, and names put into a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def parse_utc(text: str) -> datetime:
    """Reads an ISO 8601 time with Z."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


def printable(text: str) -> str:
    r"""The text on one line that a terminal and a table show as it is: control characters, line breaks, marks
    that turn the direction of writing, and halves of characters are written as escapes, e.g. ``\x1b``.
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def is_printable(text: str) -> bool:
    """Whether ``printable`` leaves the text alone."""
    return _CONTROL.search(text) is None


def printable_json(text: str) -> str:
    """JSON of the same meaning whose texts hold nothing that ``printable`` would change."""
    return "\n".join(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", line) for line in text.split("\n"))


def shortened(text: str, length: int = 200) -> str:
    """The text, cut after ``length`` characters."""
    return text if len(text) <= length else text[: length - 3] + "..."


def without_secrets(url: str) -> str:
    """A URL as it may be shown and stored: without user name, password, and the values of its query, but for
    the version of an API.
    """
    url = re.sub(r"//[^/?#\s]*@", f"//{HIDDEN}@", url)
    address, mark, query = url.partition("?")
    query, _, _ = query.partition("#")
    shown = [
        part if name.lower() in _HARMLESS else f"{name}={HIDDEN}" if equals else HIDDEN
        for part in query.split("&")
        for name, equals, _ in [part.partition("=")]
    ]
    return f"{address}?{'&'.join(shown)}" if mark else address


HIDDEN = "***"
"""In place of a secret."""
_HARMLESS = ("api-version", "api_version", "version")


def whole_characters(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair that stands alone, which UTF-8 cannot hold."""
    return _SURROGATE.sub(_REPLACEMENT, text)


def has_halves(text: str) -> bool:
    """Whether a half of a surrogate pair stands alone in the text."""
    return _SURROGATE.search(text) is not None


def json_of(document: Any, *, indent: int | None = None) -> str:
    """JSON that any reader takes and any file holds: no NaN, no infinity, no half of a character.

    Raises:
        ValueError: a number is not finite.
    """
    separators = (",", ":") if indent is None else None
    return whole_characters(
        json.dumps(document, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    )


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, at least one: ``a``, ``a and b``, ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
