"""What one request left behind, as stored in ``records.jsonl``: raw times and counts, no derived number.

Everything the reports say is computed from these lines, so that a better formula can be applied to an old
run. Standard library only: the benchmark pod and the reports import it alike.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from specdec.runs.point import Point

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

TokenSource = Literal["continuous-usage", "server-timings", "final-usage", "requested-length", "none"]
"""Where token counts come from, best first: cumulative usage on every chunk; llama.cpp's ``timings`` on every
chunk, as exact, and a chunk is then one step as the server counts steps; usage on the last chunk only; the
fixed length that was asked for with ``ignore_eos``; nowhere (then no per-token metric exists)."""


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

    drafts: int | None
    draft_tokens: int
    accepted_tokens: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request of one run.

    Attributes:
        run: run id.
        lane: ``exact`` or ``llmperf``.
        variant: variant name from the experiment, e.g. ``baseline``.
        test_case: test case name; prompts of one test case are meant to behave alike.
        prompt_class: ``structured``, ``code``, ``extraction``, ``long-form``, ``open`` or ``multilingual``;
            own sets may name others.
        prompt: prompt id, unique in its set; variants are paired by (prompt, repeat).
        repeat: 0-based repetition of the same prompt.
        block: 0-based alternation block the request ran in; -1 for warm-up.
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
        temperature: as sent.
        thinking: Qwen3 thinking mode as sent; None if the request did not say.
        server: per-request speculation counters, where reported.
        near_tie: None, or the gap in log-probability between the two best tokens at each position, if asked
            for.
    """

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
    chunk_times: tuple[float, ...] = ()
    chunk_tokens: tuple[int, ...] | None = None
    chunk_steps: tuple[int, ...] | None = None
    closed: float | None = None
    text: str = ""
    temperature: float = 0.0
    thinking: bool | None = None
    server: ServerSpeculation | None = None
    near_tie: tuple[float, ...] | None = None
    rate: float | None = None
    schema: int = field(default=SCHEMA)

    @property
    def load(self) -> float:
        """Requests per second in an open loop, else requests in flight."""
        return self.concurrency if self.rate is None else self.rate

    def to_json(self) -> str:
        """One line of ``records.jsonl``, without the newline."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> RequestRecord:
        """Reads one line back.

        Raises:
            ValueError: not JSON, another schema, or a field missing, unknown, of another type, or at odds
                with another one.
        """
        raw = _of_this_schema(line, "record")
        _require_types(_types_of(cls), raw)
        _require_chunks(raw)
        for name in ("chunk_times", "chunk_tokens", "chunk_steps", "near_tie"):
            if raw.get(name) is not None:
                raw[name] = tuple(raw[name])
        if raw.get("server") is not None:
            raw["server"] = ServerSpeculation(**raw["server"])
        try:
            return cls(**raw)
        except TypeError as error:
            raise ValueError(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunManifest:
    """What a run was, written last: a folder without it is not a finished run.

    Attributes:
        run: run id, ``YYYYmmddTHHMMSSZ-<6 hex>``.
        status: ``complete``, ``interrupted`` or ``failed``; only ``complete`` may lead to a verdict.
        experiment: experiment name.
        configuration: the resolved experiment as plain data.
        configuration_hash: hash over ``configuration``, 12 hex digits.
        started_utc, ended_utc: ISO 8601 with Z.
        environment: machine, versions, engine, what was emulated: plain data.
        variants: variant name to {"url", "model", "mode", "draft", "window", "role": "baseline" |
            "speculative"}.
        counts: records by variant and outcome, warm-up left out: ``{"baseline": {"ok": 24}}``.
        server_counters: per variant, differences of the server's speculation counters over the run, or None
            where not reported.
        records_sha256: of ``records.jsonl``.
        problem: what ended a run that is not ``complete``, for a person to read.
        points: what became of each load and variant, where the run had several loads.
    """

    run: str
    status: Literal["complete", "interrupted", "failed"]
    experiment: str
    configuration: dict[str, Any]
    configuration_hash: str
    started_utc: str
    ended_utc: str
    environment: dict[str, Any]
    variants: dict[str, dict[str, Any]]
    counts: dict[str, dict[str, int]]
    server_counters: dict[str, dict[str, Any] | None]
    records_sha256: str
    problem: str | None = None
    points: tuple[Point, ...] = ()
    schema: int = SCHEMA

    def to_json(self) -> str:
        """The whole of ``manifest.json``."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunManifest:
        """Reads ``manifest.json`` back.

        Raises:
            ValueError: not JSON, another schema, or a field missing, unknown or of another type.
        """
        raw = _of_this_schema(text, "manifest")
        _require_types(_types_of(cls), raw)
        _require_types(_CONFIGURATION, raw.get("configuration", {}), "configuration.")
        for variant, facts in raw.get("variants", {}).items():
            _require_types(_VARIANT, facts, f"variants.{variant}.")
        raw["points"] = tuple(Point(**point) for point in raw.get("points", ()))
        try:
            return cls(**raw)
        except TypeError as error:
            raise ValueError(str(error)) from None


def _of_this_schema(text: str, what: str) -> dict[str, Any]:
    try:
        raw: Any = json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(raw, dict) or cast("dict[str, Any]", raw).get("schema") != SCHEMA:
        raise ValueError(f"not a {what} of schema {SCHEMA}")
    return cast("dict[str, Any]", raw)


_types_of = functools.cache(get_type_hints)


_CONFIGURATION: dict[str, Any] = {
    "serving": dict[str, Any],
    "capacity": dict[str, Any],
    "variants": tuple[dict[str, Any], ...],
}
_VARIANT: dict[str, Any] = {"url": str, "role": str, "window": int | None} | dict.fromkeys(
    ("model", "mode", "draft", "engine"), str | None
)
"""Types inside the manifest's plain data, of what the reports read there."""


def _require_types(kinds: dict[str, Any], raw: dict[str, Any], place: str = "") -> None:
    for name, kind in kinds.items():
        if name in raw and not _fits(raw[name], kind):
            shown = str(kind).replace("typing.", "") if get_args(kind) else kind.__name__
            raise ValueError(f"{place}{name} = {reprlib.repr(raw[name])} is not {shown}")


def _fits(value: Any, kind: Any) -> bool:
    """Whether JSON gave what the annotation says: a list for a tuple, an object for a dict or a dataclass."""
    arguments = get_args(kind)
    match get_origin(kind) or kind:
        case union if union is UnionType:
            return any(_fits(value, choice) for choice in arguments)
        case literal if literal is Literal:
            return value in arguments
        case container if container is tuple:
            if not isinstance(value, list):
                return False
            items = cast("list[Any]", value)
            # Whether a number fits depends on its type alone: one of each type stands for the thousands that
            # a record holds.
            return all(
                _fits(item, arguments[0])
                for item in ({type(i): i for i in items}.values() if arguments[0] in (int, float) else items)
            )
        case container if container is dict:
            return isinstance(value, dict) and all(
                _fits(item, arguments[1]) for item in cast("dict[str, Any]", value).values()
            )
        case anything if anything is Any:
            return True
        case number if number in (int, float):
            return isinstance(value, (int, number)) and not isinstance(value, bool)
        case part if dataclasses.is_dataclass(part):
            known = _types_of(part)
            given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
            return given.keys() == known.keys() and all(
                _fits(given[name], inner) for name, inner in known.items()
            )
        case plain:
            return isinstance(value, plain)


def _require_chunks(raw: dict[str, Any]) -> None:
    times: list[float] = raw.get("chunk_times", [])
    for name in ("chunk_tokens", "chunk_steps"):
        if raw.get(name) is not None and len(raw[name]) != len(times):
            raise ValueError(f"{name} has {len(raw[name])} values, and chunk_times has {len(times)}")
    if any(not 0 < time < math.inf for time in times) or any(
        later < time for time, later in itertools.pairwise(times)
    ):
        raise ValueError(f"chunk_times = {reprlib.repr(times)} are not ascending seconds above 0")
    counts: list[int] = raw.get("chunk_tokens") or []
    if any(count < 1 for count in counts) or any(
        later <= count for count, later in itertools.pairwise(counts)
    ):
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
                raise ValueError(f"{path}:{number}: {error}") from None


def measured(records: Iterable[RequestRecord]) -> Iterator[RequestRecord]:
    """The records that metrics are made of: finished as asked, and not warm-up."""
    return (record for record in records if record.outcome == "ok" and not record.warmup)
