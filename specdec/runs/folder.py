"""Reads a stored run: a folder with ``records.jsonl`` and ``manifest.json``, checked before a word is written
about it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from specdec.errors import BadInputError, Mistake
from specdec.runs.record import SCHEMA, RequestRecord, RunManifest, read_records

MANIFEST = "manifest.json"
RECORDS = "records.jsonl"


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        folder: where it lies.
        manifest: what it was.
        records: every line of ``records.jsonl`` in order: the record of line ``n`` is ``records[n - 1]``.
    """

    folder: Path
    manifest: RunManifest
    records: tuple[RequestRecord, ...]


def read_run(folder: Path) -> Run:
    """Reads and checks a run folder.

    Raises:
        BadInputError: no such folder, no manifest (the run did not end), another schema, a line that is not a
            record, or records that are not those the manifest was written for.
    """
    if not folder.is_dir():
        raise _wrong(
            "run", folder, "is not a folder", "Name a folder under runs/, or leave it out for the latest"
        )
    manifest = _read_manifest(folder)
    path = folder / RECORDS
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        records = tuple(read_records(path))
    except OSError as error:
        raise _wrong(
            RECORDS, path, f"cannot be read: {error.strerror}", "Fetch the run again, or name another"
        ) from None
    except ValueError as error:
        remedy = _OTHER_SCHEMA if "schema" in str(error) else "Fetch the run again, or name another"
        raise _wrong(RECORDS, path, f"is broken: {str(error).removeprefix(f'{path}:')}", remedy) from None
    if digest != manifest.records_sha256:
        raise _wrong(
            RECORDS,
            path,
            "is not the file that the manifest was written for (records_sha256 differs)",
            "Fetch the run again: it was changed",
        )
    strangers = sorted({record.variant for record in records} - manifest.variants.keys())
    if strangers:
        raise _wrong(
            RECORDS,
            path,
            f"has records of variants that the manifest does not know: {', '.join(strangers)}",
            "Fetch the run again",
        )
    return Run(folder, manifest, records)


def latest(runs: Path) -> Path:
    """The newest finished run below ``runs``; run ids sort by time.

    Raises:
        BadInputError: there is none.
    """
    finished = sorted(path.parent for path in runs.glob(f"*/{MANIFEST}"))
    if finished:
        return finished[-1]
    unfinished = sorted(path.parent.name for path in runs.glob(f"*/{RECORDS}"))
    problem = (
        f"holds no finished run; without a manifest: {', '.join(unfinished)}"
        if unfinished
        else "holds no run"
    )
    raise _wrong(
        "runs",
        runs,
        problem,
        "Run `specdec rehearse` or `specdec bench` first, or name a run folder or an s3:// address",
    )


_OTHER_SCHEMA = f"This version reads schema {SCHEMA}; use the version of specdec that wrote the run"


def _read_manifest(folder: Path) -> RunManifest:
    path = folder / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if (folder / RECORDS).exists():
            problem = f"has no {MANIFEST}: the run did not end, or is still going on"
            raise _wrong(
                "run", folder, problem, "Wait for it to end, or run it again; its records are kept"
            ) from None
        raise _wrong(
            "run",
            folder,
            f"holds neither {RECORDS} nor {MANIFEST}",
            "Name the folder of one run, such as runs/<run id>",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(
            MANIFEST, path, f"cannot be read: {error}", "Fetch the run again, or name another"
        ) from None
    try:
        return RunManifest.from_json(text)
    except ValueError as error:
        other = _schema_of(text)
        if other not in (None, SCHEMA):
            raise _wrong(MANIFEST, path, f"has schema {other}", _OTHER_SCHEMA) from None
        raise _wrong(
            MANIFEST, path, f"is not a run manifest: {error}", "Fetch the run again, or name another"
        ) from None


def _schema_of(text: str) -> object:
    try:
        raw: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", raw).get("schema") if isinstance(raw, dict) else None


def _wrong(field: str, value: Path, problem: str, remedy: str) -> BadInputError:
    return BadInputError("run", [Mistake(field, str(value), problem, remedy)])
