"""Reads one request of the golden server: bodies of either framing, and everything within limits."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

from specdec.stamped import StampedSocket

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 16 * 1024 * 1024
"""Bytes of a request: more than any prompt, and less than a machine has."""

TOKEN_LIMIT = 1_000_000
"""Tokens that can be asked for: an answer is planned step by step before it begins."""


class BadRequestError(Exception):
    """The request is answered with 400, and its connection closed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request.

    Attributes:
        method: GET, POST, ...
        path: without query.
        headers: by their names in lower case.
        body: as sent, with its framing taken off.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def route(self, prefix: str) -> str | None:
        """The path behind ``prefix`` and ``/v1``; None where it does not begin with the prefix."""
        if not self.path.startswith(prefix):
            return None
        return self.path.removeprefix(prefix).removeprefix("/v1")

    def has_key(self, key: str) -> bool:
        """Whether it was sent with this key, in one of the headers that services take it from."""
        return key in (
            self.headers.get("authorization", "").removeprefix("Bearer "),
            self.headers.get("api-key"),
        )

    def fields(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            BadRequestError: it is none.
        """
        try:
            parsed: Any = json.loads(self.body)
        except (ValueError, RecursionError):
            raise BadRequestError("the body is not JSON") from None
        if not isinstance(parsed, dict):
            raise BadRequestError("the body is not a JSON object")
        return cast("dict[str, Any]", parsed)


class Reader(asyncio.StreamReader):
    """Remembers when bytes arrived, because a server with many streams handles a request some time later.

    Args:
        connection: whose bytes it reads.

    Attributes:
        fed: ``perf_counter`` at which the last bytes came, by the kernel where it tells.
    """

    def __init__(self, connection: StampedSocket) -> None:
        super().__init__(limit=HEAD_LIMIT)
        self._connection = connection
        self.fed = 0.0

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        """Called by the event loop."""
        self.fed = self._connection.arrived or perf_counter()
        super().feed_data(data)


async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked:
    """The next request of a connection. A client that waits for ``100 Continue`` gets it.

    Raises:
        BadRequestError: it is not HTTP/1.1, or longer than the limits.
        IncompleteReadError: the client closed the connection.
    """
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        raise BadRequestError(f"a head of more than {HEAD_LIMIT} bytes") from None
    start, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    parts = start.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequestError("not an HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequestError("a header without a colon")
        headers[name.strip().lower()] = value.strip()
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = await _chunked(reader)
    else:
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise BadRequestError("content-length is no number")
        if len(length) > 12 or int(length) > BODY_LIMIT:
            raise BadRequestError(f"a body of more than {BODY_LIMIT} bytes")
        body = await reader.readexactly(int(length))
    return Asked(parts[0], parts[1].partition("?")[0], headers, body)


def tokens_asked(fields: dict[str, Any]) -> int:
    """Tokens to generate: ``max_completion_tokens``, else ``max_tokens``, else 128.

    Raises:
        BadRequestError: not a whole number from 1 to ``TOKEN_LIMIT``.
    """
    for name in ("max_completion_tokens", "max_tokens"):
        value = fields.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= TOKEN_LIMIT:
            raise BadRequestError(f"{name} is not a whole number from 1 to {TOKEN_LIMIT}")
        return value
    return 128


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        line = (await _line(reader)).partition(b";")[0].strip()
        try:
            size = int(line, 16)
        except ValueError:
            raise BadRequestError("a chunk size that is no number") from None
        if size < 0 or len(body) + size > BODY_LIMIT:
            raise BadRequestError(f"a body of more than {BODY_LIMIT} bytes")
        if size == 0:
            break
        body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise BadRequestError("a chunk longer than its size")
    for _ in range(100):
        if await _line(reader) == b"\r\n":
            return bytes(body)
    raise BadRequestError("more than 100 trailers")


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequestError(f"a line of more than {HEAD_LIMIT} bytes") from None
