"""A server on 127.0.0.1 that answers as it is told, byte for byte: for trying what a client makes of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

MODELS = b'{"data":[{"id":"m"}]}'


def http(
    body: bytes,
    *,
    status: str = "200 OK",
    kind: str = "application/json",
    more: str = "",
    length: bool = True,
) -> bytes:
    """A whole answer; without a length it ends with the connection."""
    size = f"Content-Length: {len(body)}\r\n" if length else "Connection: close\r\n"
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{size}{more}\r\n".encode("latin-1") + body


def event(data: object) -> bytes:
    """An event; a text stands as it is, all else as JSON."""
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def chunk(text: str, total: int, *, finish: str | None = None, **more: object) -> dict[str, Any]:
    """An event of an answer with cumulative usage."""
    usage = {"prompt_tokens": 1, "completion_tokens": total, "total_tokens": total + 1}
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice], "usage": usage, **more}


def answer(body: dict[str, Any]) -> list[bytes]:
    """The events of a right answer, of as many tokens as were asked for."""
    count = int(body.get("max_tokens") or body.get("max_completion_tokens") or 4)
    events = [event(chunk("x", number)) for number in range(1, count + 1)]
    return [*events, event(chunk("", count, finish="length")), event(b"[DONE]")]


def streamed(events: list[bytes]) -> bytes:
    """An answer of events that ends with the connection."""
    return http(b"".join(events), kind="text/event-stream", length=False)


@dataclass
class Request:
    """What was asked.

    Attributes:
        method, path: of the request line.
        headers: with names in lower case.
        body: parsed, or empty.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Server:
    """Its address, what it does, and what it was asked.

    Attributes:
        url: base URL.
        models: answer to ``GET /v1/models``.
        respond: bytes to send for a request for text; empty to close at once.
        requests: all requests for text.
    """

    url: str = ""
    models: bytes = field(default_factory=lambda: http(MODELS))
    respond: Callable[[Request], bytes] = field(
        default_factory=lambda: lambda request: streamed(answer(request.body))
    )
    requests: list[Request] = field(default_factory=list[Request])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one connection."""
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                first, *lines = head.rstrip().split("\r\n")
                method, path, _ = first.split(" ", 2)
                headers = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
                }
                content = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Request(method, path, headers, json.loads(content) if content else {})
                if method == "GET":
                    writer.write(
                        self.models if path.endswith("/models") else http(b"no", status="404 Not Found")
                    )
                    await writer.drain()
                    continue
                self.requests.append(request)
                writer.write(self.respond(request))
                await writer.drain()
                break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError, ValueError):
            pass
        except asyncio.CancelledError:
            # The end of the server: asyncio would report a connection that it cancelled.
            pass
        finally:
            writer.close()


@contextmanager
def serving() -> Generator[Server]:
    """A server on a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = Server()
    listener = asyncio.run_coroutine_threadsafe(
        asyncio.start_server(server.serve, "127.0.0.1", 0), loop
    ).result(10)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:

        async def end() -> None:
            listener.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
