"""The streaming client: one request to an OpenAI-compatible endpoint becomes one record.

Standard library only, so that it starts at once, weighs little and disturbs nothing it measures. The
connection is opened before the clock starts and kept between requests: time to first token is the server's,
not the handshake's.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakSet

from specdec.benchmark.buffering import buffer_bytes
from specdec.benchmark.counts import MOST_TOKENS, settle
from specdec.benchmark.endpoint import Endpoint
from specdec.benchmark.fields import Fields, request_body
from specdec.benchmark.http1 import Connection, Cut, Exchange, ProtocolError, Reads, Refused
from specdec.benchmark.stream import BadStreamError, CompletionStream, ServerError
from specdec.metrics.arrivals import first_arrival
from specdec.runs.record import EXACT, TOTAL_ONLY, Outcome, RequestRecord
from specdec.text import without_secrets

if TYPE_CHECKING:
    import ssl

    from specdec.benchmark.plan import Job, Plan, Target

LONGEST_WAIT = 120.0
"""Seconds that a server may make a run wait by Retry-After; a longer one ends the request as it is."""

IDLE_LIMIT = 2.0
"""Seconds after which an idle connection is not used again. Uvicorn, which vLLM serves with, closes after
5.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Deadlines of one request, seconds.

    Attributes:
        connect: until the connection stands.
        stall: without a byte from the server, the wait for the first token included.
        total: from sending to the end of the stream.
    """

    connect: float = 10.0
    stall: float = 120.0
    total: float = 1800.0


class Client:
    """Connections to one target, kept and used again.

    Attributes:
        target: that is asked.
        lane: of its records.
        endpoint: its address.
        reads: how well the times of arrival can be told apart.
    """

    def __init__(
        self,
        target: Target,
        timeouts: Timeouts,
        headers: dict[str, str],
        *,
        fields: Fields | None = None,
        tls: ssl.SSLContext | None = None,
        lane: str = EXACT,
    ) -> None:
        self.target = target
        self.lane = lane
        self._fields = fields or Fields()
        self._tls = tls
        self.endpoint = Endpoint.of(target.url)
        self._timeouts = timeouts
        self._headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "specdec",
            **headers,
        }
        self.reads = Reads()
        self._idle: list[Connection] = []
        # All that were opened, since an interrupted `warm` has some that nobody else knows of.
        self._opened: WeakSet[Connection] = WeakSet()

    async def get(self, path: str) -> tuple[int, bytes, str | None]:
        """Status, body and ``Location`` of a GET of an absolute path.

        Raises:
            Refused: no connection.
            TimeoutError: no connection, or no end of the response, within the connect deadline each.
            Cut, ProtocolError: the response broke off, or is not HTTP.
        """
        return await self._exchanged("GET", path, b"")

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of a POST to an absolute path; raises as ``get``."""
        return (await self._exchanged("POST", path, body))[:2]

    async def _exchanged(self, method: str, path: str, sent: bytes) -> tuple[int, bytes, str | None]:
        connection = await self._open()
        body: list[bytes] = []
        try:
            exchange = connection.request(
                self.endpoint,
                method,
                path,
                headers=self._headers,
                body=sent,
                on_body=lambda piece, _: body.append(piece),
            )
            await asyncio.wait_for(exchange.done, self._timeouts.connect)
        finally:
            connection.close()
        return exchange.parser.status or 0, b"".join(body), moved_to(exchange)

    async def warm(self, connections: int) -> None:
        """Opens connections ahead of a burst of requests, as many as will be in flight. What fails here fails
        again in ``ask``.
        """
        self._idle = [connection for connection in self._idle if connection.usable(IDLE_LIMIT)]
        opening = [self._open() for _ in range(connections - len(self._idle))]
        for opened in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(opened, Connection):
                opened.release()
                self._idle.append(opened)

    async def ask(self, job: Job, plan: Plan) -> RequestRecord:
        """Sends one request and reads its stream to the end.

        Raises nothing for what the server does: the outcome says it. A task cancelled after sending gets the
        record of what had come, outcome ``cancelled``, and is to end then.
        """
        waited = 0.0
        while True:
            fitted = self._fields.fit(request_body(self.target, job, plan))
            if "ignore_eos" in self._fields.dropped:
                job = dataclasses.replace(job, fixed_length=False)
            record, refusal = await self._ask_once(job, plan, fitted)
            if refusal is None:
                break
            if self._fields.learn(refusal.words, fitted):
                continue
            if waited or not 0 < refusal.again_after <= LONGEST_WAIT:
                break
            waited = refusal.again_after
            try:
                await asyncio.sleep(waited)
            except asyncio.CancelledError:
                return dataclasses.replace(record, outcome="cancelled", error="interrupted")
        note = f"asked again after {waited:g} s, as the server asked" if waited else None
        return dataclasses.replace(record, note=record.note or note)

    async def _ask_once(
        self, job: Job, plan: Plan, fields: dict[str, Any]
    ) -> tuple[RequestRecord, Refusal | None]:
        """The record of one request, and what the server said where it refused it."""
        body = json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
        path = self.endpoint.below_base("/chat/completions" if plan.api == "chat" else "/completions")
        blank = _blank(self.target, job, plan, self.lane)
        while True:
            stream = CompletionStream()
            try:
                connection = await self._connect()
            except Refused as error:
                sent, now = perf_counter(), utc_now()
                return dataclasses.replace(
                    blank, outcome="refused", error=str(error), sent=sent, sent_utc=now
                ), None
            except TimeoutError:
                message = f"no connection to {self.endpoint.authority} within {self._timeouts.connect:g} s"
                sent, now = perf_counter(), utc_now()
                return dataclasses.replace(
                    blank, outcome="timeout", error=message, sent=sent, sent_utc=now
                ), None
            again = connection.used
            reader = _BodyReader(stream)
            exchange = connection.request(
                self.endpoint, "POST", path, headers=self._headers, body=body, on_body=reader.feed
            )
            reader.exchange = exchange
            sent_utc = utc_now()
            outcome, error = await self._follow(exchange, stream, reader, job)
            if outcome == "cut" and again and exchange.parser.status is None and not exchange.heard:
                # The server closed the idle connection while this request was on its way: it never read it.
                connection.close()
                continue
            connection.release()
            if outcome != "cancelled" and connection.usable(IDLE_LIMIT):
                self._idle.append(connection)
            record = _record(blank, self.target, exchange, stream, outcome, error, sent_utc, plan)
            return record, _refusal(outcome, exchange, stream, reader, error)

    def close(self) -> None:
        """Closes every connection."""
        for connection in self._opened:
            connection.close()
        self._idle.clear()

    async def _open(self) -> Connection:
        connection = await Connection.open(
            self.endpoint, timeout=self._timeouts.connect, reads=self.reads, tls=self._tls
        )
        self._opened.add(connection)
        return connection

    async def _connect(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable(IDLE_LIMIT):
                return connection
            connection.close()
        return await self._open()

    async def _follow(
        self, exchange: Exchange, stream: CompletionStream, reader: _BodyReader, job: Job
    ) -> tuple[Outcome, str | None]:
        try:
            late = await self._wait(exchange)
        except asyncio.CancelledError:
            return "cancelled", "interrupted"
        if late:
            return "timeout", f"{late}; {len(stream.times)} chunks had arrived"
        error = exchange.done.exception()
        match error:
            case ServerError():
                return "stream-error", str(error)
            case BadStreamError() | ProtocolError():
                return "bad-response", str(error)
            case Cut():
                return "cut", f"{error}; {len(stream.times)} chunks had arrived"
            case None:
                return _judge(exchange, stream, reader, job)
            case _:
                raise error

    async def _wait(self, exchange: Exchange) -> str | None:
        """Waits for the end of the response; says which deadline passed first, if one did."""
        limits = self._timeouts
        while not exchange.done.done():
            now = perf_counter()
            stall, total = exchange.received + limits.stall - now, exchange.sent + limits.total - now
            if total <= 0:
                return f"not done within {limits.total:g} s"
            if stall <= 0:
                return f"nothing received for {limits.stall:g} s"
            await asyncio.wait({exchange.done}, timeout=min(stall, total))
        return None


class Refusal(NamedTuple):
    """What a server said that refused a request before its first token.

    Attributes:
        words: its message.
        again_after: seconds after which it may be asked again, by its Retry-After; 0 where it does not say.
    """

    words: str
    again_after: float


class _BodyReader:
    """Gives the body to the stream where it is one, else keeps its beginning for the error message."""

    def __init__(self, stream: CompletionStream) -> None:
        self.exchange: Exchange | None = None
        self.other = b""
        self._stream = stream
        self._is_stream: bool | None = None

    def feed(self, piece: bytes, stamp: float) -> None:
        if self._is_stream is None and self.exchange is not None:
            parser = self.exchange.parser
            packed = parser.headers.get("content-encoding", "identity").lower()
            if parser.status == 200 and packed not in ("", "identity"):
                raise BadStreamError(
                    f"the answer is compressed ({packed}) though the request forbids it: no token has a time."
                    " Switch compression off in the server or proxy"
                )
            kind = parser.headers.get("content-type", "text/event-stream").lower()
            self._is_stream = parser.status == 200 and kind.startswith("text/event-stream")
        if self._is_stream:
            self._stream.feed(piece, stamp)
        elif len(self.other) < 4096:
            self.other += piece


def _refusal(
    outcome: Outcome, exchange: Exchange, stream: CompletionStream, reader: _BodyReader, error: str | None
) -> Refusal | None:
    status = exchange.parser.status
    if outcome == "stream-error" and not stream.text_times:
        return Refusal(error or "", 0.0)
    if outcome != "http-error":
        return None
    wait = exchange.parser.headers.get("retry-after", "") if status in (429, 503) else ""
    words = reader.other.decode(errors="replace") if status in (400, 422) else ""
    return Refusal(words, float(wait) if re.fullmatch(r"\d{1,6}(\.\d+)?", wait) else 0.0)


def utc_now() -> str:
    """Wall time, ISO 8601 with milliseconds and Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _judge(
    exchange: Exchange, stream: CompletionStream, reader: _BodyReader, job: Job
) -> tuple[Outcome, str | None]:
    status, wanted = exchange.parser.status, job.output_tokens
    if status != 200:
        location = moved_to(exchange)
        return "http-error", f"HTTP {status}: {location or _message(reader.other)}"
    if reader.other or not (stream.times or stream.finish_reason):
        kind = exchange.parser.headers.get("content-type", "no content type")
        return (
            "bad-response",
            f"not an event stream with tokens ({kind}): {reader.other[:200].decode(errors='replace')!r}",
        )
    if not (stream.ended or stream.finish_reason):
        return "cut", f"the stream stopped without a finish reason; {len(stream.times)} chunks had arrived"
    return _length(stream, job, wanted)


def _length(stream: CompletionStream, job: Job, wanted: int) -> tuple[Outcome, str | None]:
    if stream.total is None:
        if stream.finish_reason == "length" and stream.times:
            return "ok", None
        if stream.finish_reason is None:
            return "bad-response", "neither a finish reason nor a token count"
        return "early-eos", f"finish_reason {stream.finish_reason!r}, and the server counts no tokens"
    if not job.fixed_length or stream.total == wanted:
        return "ok", None
    if stream.total > wanted:
        return "bad-response", f"{stream.total} tokens, {wanted} were asked for"
    return "early-eos", f"finish_reason {stream.finish_reason!r} after {stream.total} of {wanted} tokens"


def moved_to(exchange: Exchange) -> str | None:
    """Where a redirection points, as it may be shown; None if the answer is none."""
    location = exchange.parser.headers.get("location")
    redirected = 300 <= (exchange.parser.status or 0) < 400 and location
    return f"moved to {without_secrets(location)}" if redirected and location else None


def _message(body: bytes) -> str:
    try:
        parsed: Any = json.loads(body)
        error = parsed.get("error", parsed)
        if isinstance(error, dict):
            fields = cast("dict[str, Any]", error)
            error = fields.get("message") or fields.get("detail") or fields
        return str(error)[:300]
    except (ValueError, AttributeError):
        return body[:300].decode(errors="replace").strip() or "no body"


def _blank(target: Target, job: Job, plan: Plan, lane: str) -> RequestRecord:
    return RequestRecord(
        run=plan.run,
        lane=lane,
        variant=target.variant,
        test_case=job.prompt.test_case,
        prompt_class=job.prompt.prompt_class,
        prompt=job.prompt.id,
        repeat=job.repeat,
        block=job.block,
        phase=job.phase,
        warmup=job.warmup,
        concurrency=plan.concurrency,
        rate=None if plan.arrival == "closed" or job.block < 0 else plan.rate,
        sent_utc="",
        sent=0.0,
        outcome="cancelled",
        requested_tokens=job.output_tokens if job.fixed_length else None,
        temperature=job.temperature,
        thinking=plan.thinking if plan.api == "chat" else None,
    )


def _record(
    blank: RequestRecord,
    target: Target,
    exchange: Exchange,
    stream: CompletionStream,
    outcome: Outcome,
    error: str | None,
    sent_utc: str,
    plan: Plan,
) -> RequestRecord:
    reached = outcome == "ok" and stream.finish_reason == "length"
    counts = settle(
        stream, requested=blank.requested_tokens if reached else None, most=most_tokens_per_event(target)
    )
    record = dataclasses.replace(
        blank,
        outcome=outcome,
        error=error,
        sent=exchange.sent,
        sent_utc=sent_utc,
        finish_reason=stream.finish_reason,
        prompt_tokens=stream.prompt_tokens,
        output_tokens=counts.total,
        token_source=counts.source,
        chunk_times=tuple(round(time - exchange.sent, 6) for time in counts.times),
        chunk_tokens=counts.tokens,
        chunk_steps=counts.steps,
        closed=None if exchange.closed is None else round(exchange.closed - exchange.sent, 6),
        text=stream.text,
        pieces=stream.pieces,
        server=stream.server,
        near_tie=tuple(stream.near_tie) if plan.near_ties and stream.near_tie else None,
        note=counts.note,
        unread=_unread(stream),
        buffer_bytes=buffer_bytes(exchange.reads),
    )
    if counts.source in ("final-usage", "requested-length") and counts.tokens is None and record.chunk_times:
        shared = first_arrival(record)
        if shared:
            note = f"the first arrival holds {shared + 1} events and the server counts at the end only"
            record = dataclasses.replace(record, token_source=TOTAL_ONLY, note=note)
    return record


def most_tokens_per_event(target: Target) -> int:
    """Tokens that one event of this target can carry, where the server does not count them."""
    if target.role == "baseline":
        return 1
    return MOST_TOKENS if target.window is None else target.window + 1


def _unread(stream: CompletionStream) -> str | None:
    """What was counted and not read, for a person; None if nothing."""
    parts = [f"field {name}" for name in stream.unread]
    if stream.reasoning_tokens and not stream.reasoned:
        parts.append(f"{stream.reasoning_tokens} tokens of reasoning that were not sent")
    if stream.total and not stream.text_times:
        parts.append(f"{stream.total} tokens without a text")
    return ", ".join(parts) or None
