"""The file of a run's records while it is being written, and what the manifest says of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from specdec.runs.record import EXACT, RequestRecord


class Ledger:
    """Keeps each record as a line, and counts.

    As a context manager it makes the file, which must not be there yet, and closes it.

    Args:
        path: of the file.
        variants: names that are counted, those without a record too.

    Raises:
        OSError: the file is there, or cannot be written.
    """

    def __init__(self, path: Path, variants: Sequence[str]) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._hash = hashlib.sha256()
        self._counts: dict[str, Counter[str]] = {variant: Counter() for variant in variants}

    def __enter__(self) -> Self:
        self._file = self._path.open("x", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, record: RequestRecord) -> None:
        """Adds one record; it is on the disk after the next ``flush``."""
        assert self._file is not None, "write within the context"
        line = record.to_json() + "\n"
        self._file.write(line)
        self._hash.update(line.encode())
        if not record.warmup and record.lane == EXACT:
            self._counts[record.variant][record.outcome] += 1

    def flush(self) -> None:
        """Hands everything so far to the system: a process that is killed leaves it."""
        if self._file is not None:
            self._file.flush()

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Measured requests of the exact lane by variant and outcome."""
        return {variant: dict(counts) for variant, counts in self._counts.items()}

    @property
    def sha256(self) -> str:
        """Of what was written, as hex digits."""
        return self._hash.hexdigest()
