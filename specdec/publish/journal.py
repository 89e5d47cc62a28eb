"""Which datums of a run were sent, kept beside its records, so that a retry publishes nothing twice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from specdec import atomic
from specdec.errors import SpecdecError

FILE = "published.json"

State = Literal["sending", "sent"]
"""``sending`` is written before a call and replaced after it: found at the start of a retry, the outcome of
that call is unknown.
"""


class Journal:
    """The journal of one run folder. Every change is on disk before the method returns.

    Raises:
        SpecdecError: the file is there but cannot be read; guessing could publish twice.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._states: dict[str, State] = {}
        if not self._path.exists():
            return
        try:
            raw: Any = json.loads(self._path.read_text(encoding="utf-8"))
            for state in ("sending", "sent"):
                self._states.update(dict.fromkeys(raw[state], state))
        except (ValueError, KeyError, TypeError) as error:
            raise SpecdecError(
                f"{self._path} cannot be read: {error!r}",
                remedy=(
                    "It says what was published already. Delete it only if nothing of this run was published"
                ),
            ) from None

    def state(self, key: str) -> State | None:
        """What is known of a datum; None if it was never sent."""
        return self._states.get(key)

    def mark(self, keys: Iterable[str], state: State | None) -> None:
        """Sets the state of datums; None forgets them."""
        for key in keys:
            if state is None:
                self._states.pop(key, None)
            else:
                self._states[key] = state
        content = {
            state: sorted(key for key, own in self._states.items() if own == state)
            for state in ("sending", "sent")
        }
        atomic.write(self._path, json.dumps(content, indent=1, allow_nan=False))
