"""A run without a manifest: it was killed, or is still going on. Its records are whole all the same."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from specdec.errors import BadInputError, Mistake
from specdec.runs.folder import Run
from specdec.runs.manifest import MANIFEST, STARTED, MeasuredVariant, RunManifest
from specdec.runs.record import RECORDS, SELF_CHECK, RequestRecord, read_all

_KILLED = f"it has no {MANIFEST}, so it was killed or is still going on"


def newest(runs: Path) -> Path:
    """The newest run below ``runs``, finished or not; run ids sort by time.

    Raises:
        BadInputError: there is none.
    """
    folders = sorted(path.parent for path in runs.glob(f"*/{RECORDS}"))
    if not folders:
        raise BadInputError(
            "run", [Mistake("runs", str(runs), "holds no run", "Start one, or name a run folder")]
        )
    return folders[-1]


def read_unfinished(folder: Path) -> Run:
    """A run without a manifest, read as an interrupted run: it has numbers and no verdict.

    The manifest is the one of the run's start where that is there, else made from the records. Then the
    variant named ``baseline``, else the one that was asked first, is taken for the baseline; models, windows,
    prices and the configuration are not known.

    Raises:
        BadInputError: no records, or a line that is none.
    """
    path = folder / RECORDS
    try:
        records = read_all(path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}", "Name the folder of one run") from None
    except ValueError as error:
        problem = f"is broken: {str(error).removeprefix(f'{path}:')}"
        raise _wrong(path, problem, "Name another run") from None
    if not records:
        raise _wrong(path, "holds no whole record yet", "Wait until a request has ended")
    started = _started(folder)
    manifest = _manifest(records, digest) if started is None else _went_on(started, records, digest)
    return Run(folder, manifest, records)


def _started(folder: Path) -> RunManifest | None:
    try:
        return RunManifest.from_json((folder / STARTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _went_on(started: RunManifest, records: tuple[RequestRecord, ...], digest: str) -> RunManifest:
    return replace(
        started,
        problem=_KILLED,
        counts=_counts(started.variants, records),
        records_sha256=digest,
        ended_utc=max(record.sent_utc for record in records),
    )


def _counts(variants: Iterable[str], records: tuple[RequestRecord, ...]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {name: Counter() for name in variants}
    for record in records:
        if not record.warmup and record.lane != SELF_CHECK:
            counts.setdefault(record.variant, Counter())[record.outcome] += 1
    return {name: dict(counter) for name, counter in counts.items()}


def _manifest(records: tuple[RequestRecord, ...], digest: str) -> RunManifest:
    names = list(dict.fromkeys(record.variant for record in records))
    baseline = "baseline" if "baseline" in names else names[0]
    variants = {
        name: MeasuredVariant(url="", role="baseline" if name == baseline else "speculative", window=None)
        for name in sorted(names, key=lambda name: name != baseline)
    }
    sent = sorted(record.sent_utc for record in records)
    return RunManifest(
        run=records[0].run,
        status="interrupted",
        problem=f"{_KILLED}; {baseline} is taken for the baseline",
        experiment="unfinished run",
        configuration={},
        configuration_hash="",
        started_utc=sent[0],
        ended_utc=sent[-1],
        environment={},
        variants=variants,
        counts=_counts(variants, records),
        server_counters=dict.fromkeys(variants),
        records_sha256=digest,
    )


def _wrong(path: Path, problem: str, remedy: str) -> BadInputError:
    return BadInputError("run", [Mistake(RECORDS, str(path), problem, remedy)])
