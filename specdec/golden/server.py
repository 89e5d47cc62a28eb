"""The golden server itself: HTTP/1.1 by hand, since most of its faults are ones that no library would
send.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter
from typing import Any

from specdec.golden import asking, events, replying, tokenizing
from specdec.golden.asking import Asked, BadRequestError, tokens_asked
from specdec.golden.settings import HTTP_FAULTS, MIDWAY, Settings
from specdec.golden.truth import Step, Truth, steps
from specdec.stamped import StampedSocket

BACKLOG = 1024
"""Connections that may wait to be taken up: more than any load opens at once."""

_NOTICE = 0.02
"""Seconds after which a server with a batch notices that a client has gone, and gives its place away."""


class _Gone(Exception):
    """The connection is to be closed at once."""


class GoldenServer:
    """Serves one model with known timing on 127.0.0.1.

    Attributes:
        settings: behaviour; may be replaced between requests.
        truths: what was done, request by request.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.truths: list[Truth] = []
        self._requests = 0
        self._listening: StampedSocket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._counted = {"drafts": 0, "draft_tokens": 0, "accepted_tokens": 0}
        self._by_position: dict[int, int] = {}
        self._running = self._waiting = 0
        self._slots = asyncio.Semaphore(settings.max_num_seqs) if settings.max_num_seqs else None

    async def start(self, port: int = 0) -> str:
        """Listens on a port, a free one by default. Returns the base URL, with the path in front of routes.

        Raises:
            OSError: the port is taken.
        """
        self._listening = StampedSocket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listening.setblocking(False)
            self._listening.stamp_reads()
            self._listening.bind(("127.0.0.1", port))
            self._listening.listen(BACKLOG)
        except OSError:
            self._listening.close()
            raise
        self._accepting = asyncio.create_task(self._accept(self._listening))
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}{self.settings.path}"

    async def _accept(self, listening: StampedSocket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listening)
            assert isinstance(connection, StampedSocket)
            protocol = asyncio.StreamReaderProtocol(asking.Reader(connection), self._connection)
            await loop.connect_accepted_socket(lambda own=protocol: own, connection)

    def _listen_no_more(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
        if self._listening is not None:
            self._listening.close()

    async def stop(self) -> None:
        """Listens no more and drops every connection."""
        self._listen_no_more()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def truth(self) -> dict[str, Any]:
        """What was done since the last reset: medians over whole requests, and each request."""
        completed = [truth for truth in self.truths if truth.fault is None and truth.ended is not None]
        names = ("ttft", "tpot", "tokens_per_step", "e2e")
        values = {
            name: [value for truth in completed if (value := getattr(truth, name)) is not None]
            for name in names
        }
        first, last = (
            min((t.read for t in completed), default=0.0),
            max((t.ended or 0.0 for t in completed), default=0.0),
        )
        return {
            "requests": len(self.truths),
            "whole": len(completed),
            "median": {name: median(numbers) if numbers else None for name, numbers in values.items()},
            "mean": {
                name: sum(numbers) / len(numbers) if numbers else None for name, numbers in values.items()
            },
            "output_tokens_per_second": (
                sum(t.tokens for t in completed) / (last - first) if last > first else None
            ),
            "each": [truth.summary() for truth in self.truths],
        }

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        if not self.settings.dialect.nodelay:
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        try:
            while await self._request(reader, writer):
                pass
        except (_Gone, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            asked = await asking.read(reader, writer)
            assert isinstance(reader, asking.Reader)
            await self._reply(asked, writer, reader.fed)
        except BadRequestError as error:
            replying.refuse(writer, str(error))
            await writer.drain()
            return False
        await writer.drain()
        return True

    async def _reply(self, asked: Asked, writer: asyncio.StreamWriter, read: float) -> None:
        settings = self.settings
        route = asked.route(settings.path)
        if route != "/truth" and settings.key is not None and not asked.has_key(settings.key):
            replying.respond(writer, 401, "application/json", b'{"error":{"message":"golden: no valid key"}}')
        elif asked.method == "POST" and route in ("/chat/completions", "/completions"):
            await self._completion(writer, asked.fields(), read, chat=route == "/chat/completions")
        elif asked.method == "POST" and route == "/tokenize":
            replying.respond(writer, 200, "application/json", tokenizing.reply(asked.fields()))
        elif asked.method == "DELETE" and route == "/truth":
            self.truths.clear()
            replying.respond(writer, 200, "application/json", b"{}")
        else:
            replying.respond(writer, *self._page(route))

    def _page(self, route: str | None) -> tuple[int, str, bytes]:
        settings = self.settings
        match route:
            case "/models":
                model = {"id": settings.model, "object": "model", "created": 0, "owned_by": settings.engine}
                return 200, "application/json", json.dumps({"object": "list", "data": [model]}).encode()
            case "/truth":
                return 200, "application/json", json.dumps(self.truth()).encode()
            case "/metrics" if settings.counters != "none":
                return 200, "text/plain; version=0.0.4", self._metrics().encode()
            case "/health":
                return 200, "application/json", b'{"status":"ok"}'
            case _:
                return 404, "application/json", b'{"error":{"message":"golden: no such page"}}'

    def _metrics(self) -> str:
        factor = 0 if self.settings.counters == "zero" else 1
        admitted = [truth for truth in self.truths if truth.admitted is not None]
        label = f'engine="0",model_name="{self.settings.model}"'
        lines = [
            f"vllm:spec_decode_num_{name}_total{{{label}}} {float(value * factor)}"
            for name, value in self._counted.items()
        ]
        lines += [
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{label},position="{position}"}}'
            f" {float(value * factor)}"
            for position, value in sorted(self._by_position.items())
        ]
        return "\n".join(
            [
                "# TYPE vllm:spec_decode_num_drafts counter",
                *lines,
                "# TYPE vllm:num_requests_running gauge",
                f"vllm:num_requests_running{{{label}}} {float(self._running)}",
                "# TYPE vllm:num_requests_waiting gauge",
                f"vllm:num_requests_waiting{{{label}}} {float(self._waiting)}",
                "# TYPE vllm:request_queue_time_seconds histogram",
                f"vllm:request_queue_time_seconds_sum{{{label}}} {sum(t.queued for t in admitted)}",
                f"vllm:request_queue_time_seconds_count{{{label}}} {float(len(admitted))}",
                "",
            ]
        )

    async def _completion(
        self, writer: asyncio.StreamWriter, body: dict[str, Any], read: float, *, chat: bool
    ) -> None:
        settings = self.settings
        asked = tokens_asked(body)
        if self._unknown(writer, body):
            return
        number = self._requests
        self._requests += 1
        fault = settings.fault if settings.fault and (number + 1) % settings.fault_every == 0 else None
        truth = Truth(number, read, asked, fault)
        self.truths.append(truth)
        if fault == "silence":
            await asyncio.sleep(3600)
        if fault == "not-http":
            writer.write(b"220 golden.example ESMTP ready\r\n\r\n")
            await writer.drain()
            raise _Gone
        if fault in HTTP_FAULTS:
            replying.respond(writer, *HTTP_FAULTS[fault])
            return
        planned = steps(
            asked + (8 if fault == "over-run" else 0),
            ttft=settings.ttft,
            step=settings.step,
            first=settings.first_tokens,
            per_step=settings.per_step,
            seed=settings.seed * 1_000_003 + number,
            jitter=settings.jitter,
        )
        writing = events.Writing(settings, body, chat=chat, planned=planned)
        async with self._service(truth):
            await self._answer(writer, body, writing, planned, truth)
        truth.ended = perf_counter()
        self._count(planned)

    def _unknown(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> bool:
        """Refuses a request that has a field which the dialect does not know."""
        dialect = self.settings.dialect
        name = next((name for name in dialect.refused if replying.has_field(body, name)), None)
        if name is None:
            return False
        message = f"Extra inputs are not permitted: {name}"
        if name == "max_tokens":
            message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        error = json.dumps({"error": {"message": message, "code": 400}}).encode()
        if dialect.refused_in == "status" or not body.get("stream"):
            replying.respond(writer, 400, "application/json", error)
        else:
            replying.head(writer, 200, "text/event-stream; charset=utf-8", "Transfer-Encoding: chunked")
            replying.chunk(writer, b"data: " + error + b"\n\n")
            writer.write(b"0\r\n\r\n")
        return True

    @asynccontextmanager
    async def _service(self, truth: Truth) -> AsyncGenerator[None]:
        """A place among the sequences in service. Waits for one if there is a limit."""
        if self._slots is not None:
            self._waiting += 1
            try:
                await self._slots.acquire()
            finally:
                self._waiting -= 1
        self._running += 1
        truth.admitted = perf_counter()
        try:
            yield
        finally:
            self._running -= 1
            if self._slots is not None:
                self._slots.release()

    async def _answer(
        self,
        writer: asyncio.StreamWriter,
        body: dict[str, Any],
        writing: events.Writing,
        planned: list[Step],
        truth: Truth,
    ) -> None:
        if not body.get("stream"):
            begun = truth.read + truth.queued
            await asyncio.sleep(begun + planned[-1].time - perf_counter())
            truth.writes = [(begun + step.time, step.tokens) for step in planned]
            replying.respond(writer, 200, "application/json", writing.document())
        else:
            replying.head(writer, 200, "text/event-stream; charset=utf-8", "Transfer-Encoding: chunked")
            await self._stream(writer, writing, planned, truth)

    async def _stream(
        self, writer: asyncio.StreamWriter, writing: events.Writing, planned: list[Step], truth: Truth
    ) -> None:
        fault = truth.fault
        midway = len(planned) // 2 if fault in MIDWAY else None
        held = replying.Buffer(writer, self.settings.dialect.buffer)
        if fault != "empty":
            held.write(writing.opening())
            begun, batched = truth.read + truth.queued, 0.0
            for index, step in enumerate(planned):
                if index == midway:
                    await self._midway(fault or "", writer, writing)
                    if fault == "early-eos":
                        break
                    return
                if index > 0:
                    batched += self.settings.batch_step * (self._running - 1)
                await self._sleep(begun + step.time + batched, writer)
                # The time is that of the step, whether or not its tokens are held back to be merged with the
                # next one's.
                truth.writes.append((perf_counter(), step.tokens))
                for piece in writing.step(index):
                    if self.settings.chunking in ("split", "packed"):
                        await replying.in_pieces(writer, piece)
                    else:
                        held.write(piece)
                if writer.transport.get_write_buffer_size() > 1 << 16:
                    await writer.drain()
            held.write(writing.closing("stop" if fault == "early-eos" else "length"))
        held.write(writing.done())
        held.flush()
        writer.write(b"0\r\n\r\n")

    async def _sleep(self, until: float, writer: asyncio.StreamWriter) -> None:
        """Waits, and soon gives up its place in the batch if the client has gone."""
        batching = self.settings.batch_step > 0 or self._slots is not None
        while (delay := until - perf_counter()) > 0:
            await asyncio.sleep(min(delay, _NOTICE) if batching else delay)
            if writer.is_closing():
                raise _Gone
        if writer.is_closing():
            raise _Gone

    async def _midway(self, fault: str, writer: asyncio.StreamWriter, writing: events.Writing) -> None:
        match fault:
            case "error-event":
                replying.chunk(
                    writer, writing.event('{"error":{"message":"golden: engine died","code":500}}')
                )
                writer.write(b"0\r\n\r\n")
            case "not-json":
                replying.chunk(writer, writing.event('{"choices":[{"delta":'))
            case "not-a-chunk":
                replying.chunk(writer, writing.event('{"hello":"world"}'))
            case "bad-framing":
                writer.write(b"zz\r\nnonsense\r\n")
            case "no-finish":
                writer.write(b"0\r\n\r\n")
            case "stall":
                await asyncio.sleep(3600)
            case "cut":
                await writer.drain()
                raise _Gone
            case "reset":
                await writer.drain()
                writer.transport.abort()
                raise _Gone
            case "death":
                asyncio.get_running_loop().call_soon(self._die)
                raise _Gone
            case _:
                pass

    def _die(self) -> None:
        self._listen_no_more()
        for writer in list(self._writers):
            writer.transport.abort()

    def _count(self, planned: list[Step]) -> None:
        drafted = self.settings.per_step.drafted
        if drafted == 0:
            return
        for step in planned[1:]:
            self._counted["drafts"] += 1
            self._counted["draft_tokens"] += drafted
            self._counted["accepted_tokens"] += step.tokens - 1
            for position in range(step.tokens - 1):
                self._by_position[position] = self._by_position.get(position, 0) + 1


@asynccontextmanager
async def serving(settings: Settings) -> AsyncGenerator[tuple[GoldenServer, str]]:
    """A server and its base URL, for the length of a ``with`` block."""
    server = GoldenServer(settings)
    url = await server.start()
    try:
        yield server, url
    finally:
        await server.stop()
