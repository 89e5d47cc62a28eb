"""What the golden server writes on a connection, byte by byte."""

from __future__ import annotations

import asyncio
import json
from typing import Any


def has_field(body: dict[str, Any], name: str) -> bool:
    """Whether a request has a field; a dot stands before a field inside another."""
    outer, _, inner = name.partition(".")
    value = body.get(outer)
    return outer in body if not inner else isinstance(value, dict) and inner in value


def refuse(writer: asyncio.StreamWriter, message: str) -> None:
    """Answers 400 and says that the connection ends."""
    body = json.dumps({"error": {"message": f"golden: {message}"}}).encode()
    head(writer, 400, "application/json", f"Content-Length: {len(body)}\r\nConnection: close")
    writer.write(body)


def head(writer: asyncio.StreamWriter, status: int, kind: str, framing: str) -> None:
    """The head of an answer."""
    reason = "OK" if status == 200 else "Golden"
    writer.write(f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n{framing}\r\n\r\n".encode())


def respond(writer: asyncio.StreamWriter, status: int, kind: str, body: bytes) -> None:
    """A whole answer."""
    head(writer, status, kind, f"Content-Length: {len(body)}")
    writer.write(body)


def chunk(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """A chunk of a body, if there is something in it."""
    if piece:
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))


class Buffer:
    """Hands on whole buffers of so many bytes; with 0 everything at once."""

    def __init__(self, writer: asyncio.StreamWriter, size: int) -> None:
        self._writer = writer
        self._size = size
        self._held = bytearray()

    def write(self, piece: bytes) -> None:
        """Takes a piece of the body."""
        self._held += piece
        while self._size and len(self._held) >= self._size:
            chunk(self._writer, bytes(self._held[: self._size]))
            del self._held[: self._size]
        if not self._size:
            self.flush()

    def flush(self) -> None:
        """Hands on what is left."""
        chunk(self._writer, bytes(self._held))
        self._held.clear()


async def in_pieces(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Three writes with the loop in between, so that they leave as three packets."""
    third = max(1, len(piece) // 3)
    for part in (piece[:third], piece[third : 2 * third], piece[2 * third :]):
        chunk(writer, part)
        await asyncio.sleep(0.0005)
