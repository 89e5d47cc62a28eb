"""What a draft proposes for texts, position by position, cached on disk."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specdec.analysis.conventions import Floats
from specdec.analysis.replay import Bits, Counts
from specdec.errors import EnvironmentFault
from specdec.forecast.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Positions:
    """What a draft does at each position of a text with one window.

    Attributes:
        kept: proposals that are kept from there.
        proposes: whether it proposes anything there; None where it always does.
        chance: that a proposal is kept there, of a draft that samples; None of one that does not, whose
            proposal is kept or not.
    """

    kept: Counts
    proposes: Bits | None = None
    chance: Floats | None = None


Kept = dict[int, Positions]
"""By window."""


class Bank:
    """What a draft proposed for texts, cached on disk line by line, so that a forecast can continue where it
    stopped.

    Args:
        folder: of all drafts.
        key: names draft and engine.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.jsonl"
        self._known: dict[str, str] = {}
        self._writing = threading.Lock()
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                # A line that an interruption cut short is asked again.
                try:
                    name, said = json.loads(line)
                except ValueError:
                    continue
                self._known[name] = said

    def bits(self, text: Tokens, ask: Callable[[], list[bool]]) -> Bits:
        """The bits of a text, asked once."""
        said = self._once([text.prompt, text.written], lambda: "".join("1" if bit else "0" for bit in ask()))
        return np.asarray([bit == "1" for bit in said], dtype=np.bool_)

    def numbers(self, text: Tokens, settings: tuple[float, ...], ask: Callable[[], list[float]]) -> Floats:
        """Numbers of a text under some settings, asked once."""
        said = self._once([text.prompt, text.written, settings], lambda: " ".join(f"{x:.7g}" for x in ask()))
        return np.asarray([float(part) for part in said.split()], dtype=np.float64)

    def _once(self, what: object, ask: Callable[[], str]) -> str:
        name = hashlib.sha256(json.dumps(what, allow_nan=False).encode()).hexdigest()
        if name not in self._known:
            self._known[name] = ask()
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._writing, self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, self._known[name]], allow_nan=False) + "\n")
            except OSError as error:
                raise EnvironmentFault(
                    f"Cannot write {self._path}: {error.strerror}",
                    remedy="Set XDG_CACHE_HOME to a folder you may write to",
                ) from None
        return self._known[name]
