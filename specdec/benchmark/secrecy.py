"""Hides what is sent and must never be stored: keys, wherever a server repeats them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import quote

from specdec.runs.record import RequestRecord
from specdec.text import HIDDEN

SHORTEST = 6
"""Characters of a key that is looked for. A shorter one, such as ``EMPTY``, is no secret, and would be found
in ordinary words.
"""


class Secrets:
    """Texts to be hidden.

    Args:
        values: what is sent, e.g. the values of headers; of ``Bearer KEY`` the key alone counts too.
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms: set[str] = set()
        for value in values:
            for part in (value, *value.split()):
                if len(part) >= SHORTEST:
                    # As a server may repeat it: in an address, in JSON, or in the repr of a message.
                    forms |= {
                        part,
                        quote(part, safe=""),
                        json.dumps(part, allow_nan=False)[1:-1],
                        repr(part)[1:-1],
                    }
        self._forms = sorted(forms, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """The text without the secrets."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def hide_in(self, value: Any) -> Any:
        """Plain data without the secrets."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            items = cast("dict[Any, Any]", value).items()
            return {self.hide_in(key): self.hide_in(entry) for key, entry in items}
        if isinstance(value, (list, tuple)):
            return [self.hide_in(entry) for entry in cast("list[Any]", value)]
        return value

    def hide_in_record(self, record: RequestRecord) -> RequestRecord:
        """The record without the secrets, in all that a server can have written."""
        if not self._forms:
            return record
        server = record.server and dataclasses.replace(record.server, source=self.hide(record.server.source))
        texts = {
            name: self.hide(value)
            for name in ("text", "error", "finish_reason", "note", "unread")
            if isinstance(value := getattr(record, name), str)
        }
        # The lengths of the pieces would no longer fit, and would tell where the secret was.
        pieces = record.pieces if texts.get("text", record.text) == record.text else None
        return dataclasses.replace(record, server=server, pieces=pieces, **texts)
