"""Reads a stored run: a folder with ``records.jsonl`` and ``manifest.json``, checked before a word is written
about it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from specdec.errors import BadInputError, Mistake
from specdec.runs.manifest import MANIFEST, RunManifest
from specdec.runs.record import RECORDS, RequestRecord, read_all
from specdec.runs.shares import has_shares, merge
from specdec.runs.strict import OtherSchemaError


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
    manifest = read_manifest(folder)
    path = folder / RECORDS
    try:
        records = read_all(path)
    except OSError as error:
        raise _unreadable(RECORDS, path, error) from None
    except ValueError as error:
        problem = f"is broken: {str(error).removeprefix(f'{path}:')}"
        raise _wrong(RECORDS, path, problem, _remedy(error)) from None
    require_untouched(folder, manifest)
    strangers = sorted({record.variant for record in records} - manifest.variants.keys())
    if strangers:
        problem = f"has records of variants that the manifest does not know: {', '.join(strangers)}"
        raise _wrong(RECORDS, path, problem, "Fetch the run again")
    return Run(folder, manifest, records)


def read_manifest(folder: Path) -> RunManifest:
    """The manifest of a finished run.

    Raises:
        BadInputError: no such folder, no manifest (the run did not end), or one that cannot be read.
    """
    if not folder.is_dir():
        raise _wrong(
            "run", folder, "is not a folder", "Name a folder under runs/, or leave it out for the latest"
        )
    path = folder / MANIFEST
    try:
        return RunManifest.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if has_shares(folder):
            return _merged(folder)
        if (folder / RECORDS).exists():
            problem = f"has no {MANIFEST}: the run was killed or is still going on"
            remedy = "Wait for it to end, or run it again; its records are kept"
            raise _wrong("run", folder, problem, remedy) from None
        problem = f"holds neither {RECORDS} nor {MANIFEST}"
        raise _wrong("run", folder, problem, "Name the folder of one run, such as runs/<run id>") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(MANIFEST, path, error) from None
    except ValueError as error:
        raise _wrong(MANIFEST, path, f"is not a run manifest: {error}", _remedy(error)) from None


def _merged(folder: Path) -> RunManifest:
    """Of a run whose clients did not put their shares together themselves."""
    try:
        return merge(folder)
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise _wrong("run", folder, f"has shares that cannot be merged: {error}", "Fetch it again") from None


def require_untouched(folder: Path, manifest: RunManifest) -> None:
    """Holds the records against the digest in the manifest.

    Raises:
        BadInputError: they are not those the manifest was written for, or not there.
    """
    path = folder / RECORDS
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(RECORDS, path, error) from None
    if digest != manifest.records_sha256:
        problem = "is not the file that the manifest was written for (records_sha256 differs)"
        raise _wrong(RECORDS, path, problem, "Fetch the run again: it was changed")


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
    remedy = "Run `specdec rehearse` or `specdec bench` first, or name a run folder or an s3:// address"
    raise _wrong("runs", runs, problem, remedy)


def _remedy(error: ValueError) -> str:
    if isinstance(error, OtherSchemaError):
        return "Use the version of specdec that wrote the run"
    return "Fetch the run again, or name another"


def _unreadable(field: str, path: Path, error: OSError | UnicodeDecodeError) -> BadInputError:
    reason = error.strerror if isinstance(error, OSError) else error
    return _wrong(field, path, f"cannot be read: {reason}", "Fetch the run again, or name another")


def _wrong(field: str, value: Path, problem: str, remedy: str) -> BadInputError:
    return BadInputError("run", [Mistake(field, str(value), problem, remedy)])
