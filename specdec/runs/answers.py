"""Answers that were collected besides the measured part of a run. They have files of their own next to its
records.
"""

from __future__ import annotations

from pathlib import Path

from specdec.errors import BadInputError, Mistake
from specdec.runs.record import RequestRecord, read_records

SAMPLING = "sampling.jsonl"
"""Many short answers to one prompt above temperature 0."""

QUALITY = "quality.jsonl"
"""An answer to each of the tasks."""


def read(folder: Path, name: str) -> tuple[RequestRecord, ...]:
    """The answers in one of the files; empty where there is none.

    Raises:
        BadInputError: it cannot be read.
    """
    path = folder / name
    if not path.exists():
        return ()
    try:
        return tuple(read_records(path))
    except (OSError, ValueError) as error:
        raise BadInputError(
            "run", [Mistake(name, str(path), f"is broken: {error}", "Delete the file, and ask again")]
        ) from None
