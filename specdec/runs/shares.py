"""A run that several clients measured together: one folder per share, merged into one run.

Each client's records have its own machine's ``perf_counter``. They are put on one clock by the wall time that
every record has beside it, so that throughput and requests in flight are those of all clients.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any

from specdec import atomic
from specdec.runs.manifest import MANIFEST, RunManifest, Status
from specdec.runs.point import Point, PointEnd
from specdec.runs.record import RECORDS, RequestRecord, read_records

SHARE = "share"
"""Entry of ``environment``: ``{"index": 0, "of": 2}``."""

_PREFIX = "share-"


def share_folder(run: Path, index: int) -> Path:
    """Folder of one share below that of its run."""
    return run / f"{_PREFIX}{index}"


def has_shares(run: Path) -> bool:
    """Whether a folder holds the shares of a run, one of them finished."""
    return any(run.glob(f"{_PREFIX}*/{MANIFEST}"))


def merge(run: Path) -> RunManifest:
    """Writes records and manifest of the whole run into its folder, from the shares below it.

    A share that is missing, or has no manifest, makes the run ``failed`` and is named in ``problem``.

    Raises:
        ValueError: a share cannot be read, or none is finished.
        OSError: the folder cannot be read or written.
    """
    manifests: dict[int, RunManifest] = {}
    for path in sorted(run.glob(f"{_PREFIX}*/{MANIFEST}")):
        manifest = RunManifest.from_json(path.read_text(encoding="utf-8"))
        manifests[int(manifest.environment[SHARE]["index"])] = manifest
    if not manifests:
        raise ValueError(f"{run}: no share of the run is finished")
    records = [
        record
        for index in sorted(manifests)
        for record in on_wall_time(list(read_records(share_folder(run, index) / RECORDS)))
    ]
    first = min((record.sent for record in records), default=0.0)
    records = [dataclasses.replace(record, sent=record.sent - first) for record in records]
    records.sort(key=lambda record: record.sent)
    text = "".join(record.to_json() + "\n" for record in records)
    atomic.write(run / RECORDS, text)
    merged = merged_manifest(manifests, hashlib.sha256(text.encode()).hexdigest())
    atomic.write(run / MANIFEST, merged.to_json())
    return merged


def on_wall_time(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """The records with ``sent`` in seconds since 1970: the wall time of all of them, by its median distance.

    A single wall time is rounded to a millisecond, and taken a moment after ``sent``.
    """
    away = [
        datetime.fromisoformat(record.sent_utc).timestamp() - record.sent
        for record in records
        if record.sent_utc
    ]
    shift = median(away) if away else 0.0
    return [dataclasses.replace(record, sent=record.sent + shift) for record in records]


def merged_manifest(manifests: dict[int, RunManifest], digest: str) -> RunManifest:
    """The manifest of the whole run.

    Args:
        manifests: by index, those that are there.
        digest: of the merged records.
    """
    first = manifests[min(manifests)]
    of = int(first.environment[SHARE]["of"])
    missing = [index for index in range(of) if index not in manifests]
    problems = [
        f"share {index} of {of} (counted from 0): {manifest.problem}"
        for index, manifest in sorted(manifests.items())
        if manifest.problem
    ]
    if missing:
        words = ", ".join(map(str, missing))
        problems.insert(0, f"share {words} of {of} (counted from 0) is missing: its requests are not here")
    states = {manifest.status for manifest in manifests.values()}
    status: Status = "failed" if missing or "failed" in states else "complete"
    if status == "complete" and "interrupted" in states:
        status = "interrupted"
    environment: dict[str, Any] = {k: v for k, v in first.environment.items() if k != SHARE}
    counts: dict[str, Counter[str]] = {variant: Counter() for variant in first.counts}
    for manifest in manifests.values():
        for variant, own in manifest.counts.items():
            counts.setdefault(variant, Counter()).update(own)
    return dataclasses.replace(
        first,
        status=status,
        problem="; ".join(dict.fromkeys(problems)) or None,
        started_utc=min(manifest.started_utc for manifest in manifests.values()),
        ended_utc=max(manifest.ended_utc for manifest in manifests.values()),
        environment={**environment, "shares": {"of": of, "missing": missing}},
        counts={variant: dict(own) for variant, own in counts.items()},
        records_sha256=digest,
        points=_points([manifest.points for _, manifest in sorted(manifests.items())]),
    )


def _points(shares: Sequence[Sequence[Point]]) -> tuple[Point, ...]:
    """The points of all shares merged: requests are summed, lateness is the maximum, gauges are averaged."""
    return tuple(
        dataclasses.replace(
            first,
            planned=sum(point.planned for point in of_all),
            sent=sum(point.sent for point in of_all),
            end=_end([point.end for point in of_all]),
            seconds=max(point.seconds for point in of_all),
            loop_lag_seconds=_worst(point.loop_lag_seconds for point in of_all),
            blurred=_worst(point.blurred for point in of_all),
            latest_send_seconds=_worst(point.latest_send_seconds for point in of_all),
            running=_mean(point.running for point in of_all),
            waiting=_mean(point.waiting for point in of_all),
            queue_seconds=_mean(point.queue_seconds for point in of_all),
            prefill_seconds=_mean(point.prefill_seconds for point in of_all),
        )
        for first in shares[0]
        for of_all in [
            [p for own in shares for p in own if (p.variant, p.load) == (first.variant, first.load)]
        ]
    )


def _end(ends: Sequence[PointEnd]) -> PointEnd:
    cut: list[PointEnd] = [end for end in ends if end != "complete"]
    return cut[0] if cut else "complete"


def _worst(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), 6) if known else None
