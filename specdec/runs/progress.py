"""The progress line that a benchmark pod prints, and how to find it in a log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MARK = "specdec-progress"
"""Stands in every such line, for a filter of a log service."""

_LINE = re.compile(MARK + r" (?P<run>\d{8}T\d{6}Z-[0-9a-f]{6}): (?P<words>[^\"\\\r\n]+)")


@dataclass(frozen=True, slots=True)
class Progress:
    """How a run stands.

    Attributes:
        run: run id.
        words: requests done and in all, and running medians per variant.
    """

    run: str
    words: str

    def __str__(self) -> str:
        return f"{MARK} {self.run}: {self.words}"


def newest(lines: Iterable[str]) -> Progress | None:
    """The last progress among lines of a log, oldest first; None where there is none.

    Args:
        lines: as printed, or wrapped into JSON as Container Insights does.
    """
    last: Progress | None = None
    for line in lines:
        match = _LINE.search(line)
        if match:
            last = Progress(match["run"], match["words"].strip())
    return last
