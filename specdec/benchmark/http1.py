"""HTTP/1.1 on a socket whose reads are stamped.

A client library hands bytes to a waiting task some time after they came, and more so when many streams wake
at once. Here bytes have the time at which the kernel took them in (``specdec.stamped``). Where it
does not tell, ``data_received`` takes the time and nothing else, and parsing is put off until every socket
that is ready has been stamped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import cast

from specdec.benchmark.endpoint import Endpoint
from specdec.stamped import StampedSocket, connected

HEAD_LIMIT = 64 * 1024
"""Bytes that status line and headers may have together."""

QUICK_ACKNOWLEDGEMENTS = hasattr(socket, "TCP_QUICKACK")
"""Whether this system lets a program ask for them; Linux does. Without them a server without TCP_NODELAY can
show a first token that is late by 40 ms and cheap tokens after it."""


STAMPED = 0.98
"""Share of the reads whose time the kernel must have told for a client not to depend on its own."""

LATE_READ = 0.005
"""Seconds after their arrival from which bytes count as read late."""


class ProtocolError(Exception):
    """The server does not speak HTTP/1.1 as this client understands it."""


class Cut(Exception):
    """The connection ended before the response did."""


class Refused(Exception):
    """No connection came about."""


class ResponseParser:
    """One response, from bytes cut anywhere. Holds no socket."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.complete = False
        self.keep_alive = False
        self._buffer = bytearray()
        self._state = "head"
        self._left = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Pieces of the body that ``data`` brings.

        Raises:
            ProtocolError: not HTTP/1.x, a header or chunk that cannot be read, or bytes after the end.
        """
        if self._state == "size" and not self._buffer and (whole := _whole_chunk(data)) is not None:
            return [whole]
        self._buffer += data
        pieces: list[bytes] = []
        while self._advance(pieces):
            pass
        if self.complete and self._buffer:
            raise ProtocolError(f"{len(self._buffer)} bytes after the end of the response")
        return pieces

    def end(self) -> None:
        """The peer closed the connection.

        Raises:
            Cut: the response was not complete.
        """
        if self._state == "until-close":
            self.complete = True
        if not self.complete:
            raise Cut(
                "the connection closed before the response ended"
                if self.status
                else "the connection closed without a response"
            )

    def _advance(self, pieces: list[bytes]) -> bool:
        match self._state:
            case "head":
                return self._head()
            case "size":
                return self._chunk_size()
            case "chunk" | "counted":
                return self._counted(pieces)
            case "chunk-end":
                return self._chunk_end()
            case "trailer":
                return self._trailer()
            case "until-close" if self._buffer:
                pieces.append(self._take(len(self._buffer)))
            case _:
                pass
        return False

    def _take(self, count: int) -> bytes:
        piece = bytes(self._buffer[:count])
        del self._buffer[:count]
        return piece

    def _line(self, what: str) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_LIMIT:
                raise ProtocolError(f"{what} of more than {HEAD_LIMIT} bytes")
            return None
        return self._take(end + 2)[:-2]

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_LIMIT or not b"HTTP/1.".startswith(self._buffer[:7]):
                raise ProtocolError(f"not an HTTP/1.1 response: {bytes(self._buffer[:80])!r}")
            return False
        lines = self._take(end + 4)[:-4].decode("latin-1").split("\r\n")
        version, _, rest = lines[0].partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not rest[:3].isdigit():
            raise ProtocolError(f"not an HTTP/1.1 response: {lines[0][:80]!r}")
        status = int(rest[:3])
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise ProtocolError(f"not a header: {line[:80]!r}")
            headers[name.strip().lower()] = value.strip()
        if 100 <= status < 200:
            return True
        self.status, self.headers = status, headers
        connection = headers.get("connection", "").lower()
        self.keep_alive = "close" not in connection and (version == "HTTP/1.1" or "keep-alive" in connection)
        self._frame()
        return True

    def _frame(self) -> None:
        length = self.headers.get("content-length")
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._state = "size"
        elif self.status in (204, 304) or length == "0":
            self._finish()
        elif length is not None:
            if not length.isdigit():
                raise ProtocolError(f"content-length: {length[:80]!r}")
            self._left = int(length)
            self._state = "counted"
        else:
            self.keep_alive = False
            self._state = "until-close"

    def _chunk_size(self) -> bool:
        line = self._line("a chunk size")
        if line is None:
            return False
        digits = line.partition(b";")[0].strip()
        try:
            self._left = int(digits, 16)
        except ValueError:
            raise ProtocolError(f"chunk size {bytes(digits[:80])!r}") from None
        self._state = "chunk" if self._left else "trailer"
        return True

    def _counted(self, pieces: list[bytes]) -> bool:
        if not self._buffer:
            return False
        piece = self._take(min(self._left, len(self._buffer)))
        pieces.append(piece)
        self._left -= len(piece)
        if self._left == 0:
            if self._state == "chunk":
                self._state = "chunk-end"
            else:
                self._finish()
        return True

    def _chunk_end(self) -> bool:
        if len(self._buffer) < 2:
            return False
        if self._take(2) != b"\r\n":
            raise ProtocolError("a chunk longer than its size")
        self._state = "size"
        return True

    def _trailer(self) -> bool:
        line = self._line("a trailer")
        if line is None:
            return False
        if not line:
            self._finish()
        return True

    def _finish(self) -> None:
        self._state = "done"
        self.complete = True


def _whole_chunk(data: bytes) -> bytes | None:
    """The body where ``data`` is exactly one chunk of it, as an event of a stream mostly is; else None."""
    end = data.find(b"\r\n")
    try:
        size = int(data[:end], 16)
    except ValueError:
        return None
    start = end + 2
    whole = size > 0 and start + size + 2 == len(data) and data.endswith(b"\r\n")
    return data[start:-2] if whole else None


@dataclass(slots=True)
class Reads:
    """How well a client can tell the times of arrival on its connections apart.

    Attributes:
        count: reads from sockets.
        stamped: of these, the ones whose time the kernel told.
        blurred: of these, the ones that came ``LATE_READ`` or more after their last byte and held several
            parts of a stream: a part before the last came earlier than the time it has.
    """

    count: int = 0
    stamped: int = 0
    blurred: int = 0

    @property
    def blurred_share(self) -> float | None:
        """Of the reads; None where the kernel does not tell their times. It begins to some moments after it
        is first asked.
        """
        told = self.stamped > 0 and self.stamped >= STAMPED * self.count
        return round(self.blurred / self.stamped, 6) if told else None

    def copy(self) -> Reads:
        """As they are now."""
        return replace(self)

    def add(self, later: Reads, *, since: Reads) -> None:
        """Takes what was read between two accounts into this one."""
        self.count += later.count - since.count
        self.stamped += later.stamped - since.stamped
        self.blurred += later.blurred - since.blurred


class Exchange:
    """One request and its response.

    Attributes:
        parser: status, headers and framing of the response.
        sent: ``perf_counter`` just before the request was handed to the socket.
        received: ``perf_counter`` of the last bytes that came, else of sending.
        closed: ``perf_counter`` of the response's last byte, or None.
        reads: (``perf_counter``, bytes) of each read from the socket.
        done: ends with the response, or with ``Cut``, ``ProtocolError`` or whatever ``on_body`` raised.
    """

    def __init__(self, on_body: Callable[[bytes, float], None]) -> None:
        self.parser = ResponseParser()
        self.sent = self.received = perf_counter()
        self.closed: float | None = None
        self.reads: list[tuple[float, int]] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Whoever gave up waiting does not ask any more how it ended.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._on_body = on_body

    @property
    def heard(self) -> bool:
        """Whether a byte of the response has come."""
        return self.received > self.sent

    def feed(self, data: bytes, stamp: float) -> int:
        """Takes bytes that arrived at ``stamp``. Returns how many parts of an unfinished body they hold."""
        if self.done.done():
            return 0
        self.reads.append((stamp, len(data)))
        try:
            pieces = self.parser.feed(data)
            for piece in pieces:
                self._on_body(piece, stamp)
        except Exception as error:
            self.done.set_exception(error)
            return 0
        if self.parser.complete:
            self.closed = stamp
            self.done.set_result(None)
            return 0
        return len(pieces)

    def lost(self, error: Exception | None, stamp: float) -> None:
        """Takes the end of the connection."""
        if self.done.done():
            return
        try:
            if error is not None:
                raise Cut(f"the connection broke: {error or type(error).__name__}")
            self.parser.end()
        except Cut as cut:
            self.done.set_exception(cut)
            return
        self.closed = stamp
        self.done.set_result(None)


class Connection(asyncio.Protocol):
    """One connection, used for one exchange at a time and kept open between them where the server allows."""

    def __init__(self, stamped: StampedSocket, reads: Reads) -> None:
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._arrived: list[tuple[float, bytes]] = []
        self._exchange: Exchange | None = None
        self._idle_since = 0.0
        self._socket: StampedSocket | None = stamped
        self._reads = reads
        self.used = False

    @classmethod
    async def open(
        cls,
        endpoint: Endpoint,
        *,
        timeout: float,
        reads: Reads | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Connection:
        """Connects; ``tls`` says which certificates are trusted where the endpoint is https, ``reads`` keeps
        the account.

        Raises:
            Refused: nobody listens, the name is unknown, or the certificate is not trusted.
            TimeoutError: no connection within ``timeout`` seconds.
        """
        loop = asyncio.get_running_loop()
        context = (tls or ssl.create_default_context()) if endpoint.tls else None
        try:
            async with asyncio.timeout(timeout):
                stamped = await connected(endpoint.host, endpoint.port)
                try:
                    _, connection = await loop.create_connection(
                        lambda: cls(stamped, reads or Reads()),
                        sock=stamped,
                        ssl=context,
                        server_hostname=endpoint.host if context else None,
                    )
                except BaseException:
                    stamped.close()
                    raise
        except TimeoutError:
            raise
        except OSError as error:
            # A TLS fault has numbers of its own, and a failed name look-up negative ones.
            known = (
                error.errno
                if error.errno and error.errno > 0 and not isinstance(error, ssl.SSLError)
                else None
            )
            reason = os.strerror(known) if known else error.strerror or str(error)
            raise Refused(f"no connection to {endpoint.authority}: {reason}") from None
        return connection

    def request(
        self,
        endpoint: Endpoint,
        method: str,
        path: str,
        *,
        headers: dict[str, str],
        body: bytes,
        on_body: Callable[[bytes, float], None],
    ) -> Exchange:
        """Sends a request for an absolute path. ``on_body`` gets each piece of the response's body with the
        time it arrived.
        """
        assert self._transport is not None
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {endpoint.authority}",
            f"Content-Length: {len(body)}",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        message = "\r\n".join([*lines, "", ""]).encode("latin-1") + body
        self._exchange = exchange = Exchange(on_body)
        self.used = True
        exchange.sent = exchange.received = perf_counter()
        self._transport.write(message)
        self._acknowledge()
        return exchange

    def release(self) -> None:
        """The exchange is over and its response complete: keep the connection if it can be used again, else
        close it.
        """
        exchange, self._exchange = self._exchange, None
        self._idle_since = perf_counter()
        if exchange is None or not exchange.parser.complete or not exchange.parser.keep_alive:
            self.close()

    def usable(self, idle_limit: float) -> bool:
        """Whether it is open, and has been idle for less than ``idle_limit`` seconds."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and perf_counter() - self._idle_since < idle_limit
        )

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop: takes the time, and leaves the parsing for later where it is its own."""
        self._acknowledge()
        self._reads.count += 1
        stamp = self._socket.arrived if self._socket is not None else None
        if stamp is not None and not self._arrived:
            self._reads.stamped += 1
            self._take(data, stamp)
            return
        self._arrived.append((stamp or perf_counter(), data))
        if len(self._arrived) == 1:
            self._loop.call_soon(self._parse)

    def _take(self, data: bytes, stamp: float) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        # A clock that was set in between must not turn the order round.
        stamp = max(stamp, exchange.received) if stamp > exchange.sent else perf_counter()
        exchange.received = stamp
        parts = exchange.feed(data, stamp)
        if parts > 1 and perf_counter() - stamp > LATE_READ:
            self._reads.blurred += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        stamp = perf_counter()
        self._parse()
        self._transport = self._socket = None
        if self._exchange is not None:
            self._exchange.lost(exc, stamp)

    def _acknowledge(self) -> None:
        """Has the kernel acknowledge at once what comes next.

        A server without TCP_NODELAY holds each packet back until the one before it is acknowledged, and a
        kernel may put that off by 40 ms: its first tokens then come together and late. The kernel forgets
        the option, so that it is set again after each read.
        """
        if QUICK_ACKNOWLEDGEMENTS and self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _parse(self) -> None:
        arrived, self._arrived = self._arrived, []
        for stamp, data in arrived:
            self._take(data, stamp)
