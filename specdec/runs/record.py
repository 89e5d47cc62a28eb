"""The record of one request, as stored in ``records.jsonl``: raw times and counts, no derived number.

Everything the reports say is computed from these lines, so that a better formula can be applied to an old
run.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from specdec.runs import strict
from specdec.runs.packed import Packed
from specdec.text import json_of

RECORDS = "records.jsonl"
"""Name of the file in a run folder."""

SCHEMA = 1

Outcome = Literal[
    "ok", "early-eos", "refused", "timeout", "http-error", "stream-error", "cut", "bad-response", "cancelled"
]
"""How a request ended. Only ``ok`` enters a metric; every other outcome is counted and shown.

``ok``: the requested number of tokens arrived (or, without a fixed length, a regular stop).
``early-eos``: a regular stop before the fixed length. ``refused``: no connection. ``timeout``: a deadline of
ours passed. ``http-error``: status other than 200. ``stream-error``: the server sent an error event.
``cut``: the connection ended before the stream did. ``bad-response``: not the protocol. ``cancelled``:
Ctrl-C.
"""

TokenSource = Literal[
    "continuous-usage", "server-timings", "final-usage", "requested-length", "total-only", "none"
]
"""Where token counts come from, best first: cumulative usage on every chunk; llama.cpp's ``timings`` on every
chunk, as exact, and a chunk is then one step as the server counts steps; usage on the last chunk only; the
fixed length that was asked for with ``ignore_eos``; a total that does not fit what came, so that no token has
a time; nowhere. With the last two no per-token metric exists."""

TOTAL_ONLY: TokenSource = "total-only"

EXACT, SELF_CHECK = "exact", "self-check"
"""Lanes of our own client. Only ``exact`` is compared and published. ``self-check`` is the baseline's second
arm, which shows by how much the measurement differs from itself (``specdec.benchmark.self_check``)."""


@dataclass(frozen=True, slots=True)
class ServerSpeculation:
    """Speculation counters the server reported for one request. Absent (None on the record) where it reports
    none.

    Attributes:
        drafts: verification steps that had a draft to check.
        draft_tokens: tokens proposed.
        accepted_tokens: proposed tokens that were kept.
        source: which field of the response they came from.
    """

    __pydantic_config__ = strict.CONFIG

    drafts: int | None
    draft_tokens: int
    accepted_tokens: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class RequestRecord:
    """One request of one run.

    Attributes:
        run: run id.
        lane: ``exact``, ``self-check`` or ``llmperf``.
        variant: variant name from the experiment, e.g. ``baseline``.
        test_case: test case name; prompts of one test case are meant to behave alike.
        prompt_class: ``structured``, ``code``, ``extraction``, ``long-form``, ``open`` or ``multilingual``;
            own sets may name others.
        prompt: prompt id, unique in its set; variants are paired by (prompt, repeat).
        repeat: 0-based repetition of the same prompt.
        block: 0-based alternation block the request ran in; -1 for warm-up.
        phase: 0-based phase of a run that serves one variant after the other; None in other runs.
        warmup: excluded from every metric: sent before the measured ones, or beside them to keep the load up
            (``block`` is then theirs).
        concurrency: requests in flight by design (closed loop).
        rate: requests per second by design (open loop); None in a closed loop.
        sent_utc: wall time of sending, ISO 8601 with Z.
        sent: monotonic clock at sending, seconds; only differences within one run mean anything.
        outcome: see ``Outcome``.
        error: the server's or the client's words where outcome is not ``ok``.
        finish_reason: as the server gave it.
        prompt_tokens: by the server's usage, else None.
        output_tokens: total completion tokens, else None.
        token_source: see ``TokenSource``.
        requested_tokens: fixed output length asked for, or None.
        chunk_times: seconds from sending to the arrival of each chunk that brought tokens, ascending.
        chunk_tokens: cumulative completion tokens at each of these chunks (same length), or None.
        chunk_steps: cumulative steps of the engine at each of these chunks (same length), where the server
            tells them, else None.
        closed: seconds from sending until the stream ended, or None.
        text: the output (content, and reasoning before it if any).
        pieces: characters of ``text`` that each event brought, or None. A plain server sends each token by
            itself, so that they tell its tokens where the text can be tokenized in several ways.
        temperature: as sent.
        thinking: Qwen3 thinking mode as sent; None if the request did not say.
        server: per-request speculation counters, where reported.
        near_tie: None, or the gap in log-probability between the two best tokens at each position, if asked
            for.
        note: what kept the client from telling counts or times as they were made, for a person; None mostly.
        unread: parts of the answer that were counted and not read, so that ``text`` is not all of it; None
            mostly.
        buffer_bytes: size of the buffers in which the answer was handed on, where its arrivals show one.
    """

    __pydantic_config__ = strict.CONFIG

    run: str
    lane: str
    variant: str
    test_case: str
    prompt_class: str
    prompt: str
    repeat: int
    block: int
    warmup: bool
    concurrency: int
    sent_utc: str
    sent: float
    outcome: Outcome
    error: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    token_source: TokenSource = "none"
    requested_tokens: int | None = None
    chunk_times: Sequence[float] = ()
    chunk_tokens: tuple[int, ...] | None = None
    chunk_steps: tuple[int, ...] | None = None
    closed: float | None = None
    text: str = ""
    pieces: tuple[int, ...] | None = None
    temperature: float = 0.0
    thinking: bool | None = None
    server: ServerSpeculation | None = None
    near_tie: tuple[float, ...] | None = None
    rate: float | None = None
    note: str | None = None
    unread: str | None = None
    buffer_bytes: int | None = None
    phase: int | None = None
    schema: int = field(default=SCHEMA)

    @property
    def load(self) -> float:
        """Requests per second in an open loop, else requests in flight."""
        return self.concurrency if self.rate is None else self.rate

    def to_json(self) -> str:
        """One line of ``records.jsonl``, without the newline."""
        # Not ``asdict``, which copies every number: many records end at once, and streams wait meanwhile.
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["chunk_times"] = tuple(self.chunk_times)
        if self.server is not None:
            fields["server"] = dataclasses.asdict(self.server)
        return json_of(fields)

    @classmethod
    def from_json(cls, line: str) -> RequestRecord:
        """Reads one line back.

        Raises:
            ValueError: not JSON, another schema, or a field missing, unknown, of another type, or at odds
                with another one.
        """
        record = strict.read(cls, line, "record", SCHEMA)
        _require_order(record)
        # Nobody else has the record yet.
        object.__setattr__(record, "chunk_times", Packed(record.chunk_times) if record.chunk_times else ())
        return record


def _require_order(record: RequestRecord) -> None:
    times = record.chunk_times
    for name in ("chunk_tokens", "chunk_steps"):
        values: tuple[int, ...] | None = getattr(record, name)
        if values is not None and len(values) != len(times):
            raise ValueError(f"{name} has {len(values)} values, and chunk_times has {len(times)}")
    if times and not (
        times[0] > 0
        and math.isfinite(times[-1])
        and all(map(operator.le, times, itertools.islice(times, 1, None)))
    ):
        raise ValueError(f"chunk_times = {reprlib.repr(times)} are not ascending seconds above 0")
    if record.pieces is not None and sum(record.pieces) != len(record.text):
        raise ValueError(f"pieces have {sum(record.pieces)} characters, and text has {len(record.text)}")
    counts = record.chunk_tokens or ()
    if counts and not (counts[0] > 0 and all(map(operator.lt, counts, itertools.islice(counts, 1, None)))):
        raise ValueError(f"chunk_tokens = {reprlib.repr(counts)} do not rise with every chunk")


def read_records(path: Path) -> Iterator[RequestRecord]:
    """All whole records of a file, in order. A last line cut short by an interruption is passed over.

    Raises:
        ValueError: a line other than the last is not a record; the message names file and line.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return
            try:
                yield RequestRecord.from_json(line)
            except ValueError as error:
                raise type(error)(f"{path}:{number}: {error}") from None


def read_all(path: Path) -> tuple[RequestRecord, ...]:
    """What ``read_records`` yields, to be kept. Right variants and repeats say the same, and plain streams
    count alike, so equal texts and counts are kept once.
    """
    known: dict[object, object] = {}

    def shared(record: RequestRecord) -> RequestRecord:
        for name in ("text", "pieces", "chunk_tokens", "chunk_steps"):
            value = getattr(record, name)
            # Nobody else has the record yet.
            object.__setattr__(record, name, known.setdefault(value, value))
        return record

    return tuple(map(shared, read_records(path)))


def measured(records: Iterable[RequestRecord]) -> Iterator[RequestRecord]:
    """The records that metrics are made of: finished as asked, and not warm-up."""
    return (record for record in records if record.outcome == "ok" and not record.warmup)
