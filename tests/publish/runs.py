"""Run folders with known numbers."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from specdec.runs.manifest import RunManifest
from specdec.runs.record import RequestRecord

NOW = datetime(2026, 11, 29, 12, 0, 30, tzinfo=UTC)


def utc(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def record(
    variant: str = "baseline",
    case: str = "count",
    *,
    step: float = 0.02,
    tokens: int = 5,
    at: datetime = NOW,
    **other: Any,
) -> RequestRecord:
    """A request whose first token came after 0.2 s and each further one after ``step``."""
    base = RequestRecord(
        run="20261129T120000Z-abc123",
        lane="exact",
        variant=variant,
        test_case=case,
        prompt_class="structured",
        prompt="count-1",
        repeat=0,
        block=0,
        warmup=False,
        concurrency=1,
        sent_utc=utc(at),
        sent=1.0,
        outcome="ok",
        finish_reason="length",
        output_tokens=tokens,
        token_source="continuous-usage",
        requested_tokens=tokens,
        chunk_times=tuple(0.2 + step * index for index in range(tokens)),
        chunk_tokens=tuple(range(1, tokens + 1)),
        closed=0.2 + step * tokens,
        text="1 2 3",
    )
    return dataclasses.replace(base, **other)


def write(
    folder: Path, records: Sequence[RequestRecord], *, status: Any = "complete", ended: datetime = NOW
) -> Path:
    """A finished run folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(one.to_json() + "\n" for one in records)
    (folder / "records.jsonl").write_text(text, encoding="utf-8")
    manifest = RunManifest(
        run="20261129T120000Z-abc123",
        status=status,
        experiment="exp",
        configuration={"objective": {"ttft_ms": 1000, "tpot_ms": 50}},
        configuration_hash="0" * 12,
        started_utc=utc(ended - timedelta(minutes=5)),
        ended_utc=utc(ended),
        environment={},
        variants={"baseline": {"role": "baseline"}, "speculative": {"role": "speculative"}},
        counts={},
        server_counters={},
        records_sha256=hashlib.sha256(text.encode()).hexdigest(),
    )
    (folder / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    return folder
