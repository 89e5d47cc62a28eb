"""A socket that tells when the bytes it hands out had arrived, by the kernel's clock.

A program reads a socket when its turn comes: behind other streams, or behind other programs on a busy
machine. Linux notes the time at which a packet came in (``SO_TIMESTAMPNS``, socket(7)), for TCP that of the
last byte of a read, so that the time of a token does not depend on when the client came to read it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_SO_TIMESTAMPNS = 35
"""Of Linux on x86 and ARM, in nanoseconds and the machine's own width; the standard library has no name for
it."""

_TIMESPEC = struct.Struct("@ll")
_ROOM = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0

LONGEST_WAIT = 60.0
"""Seconds that bytes may have waited to be read. A longer or negative wait means that somebody has set the
clock, and the time of reading is taken."""


class StampedSocket(socket.socket):
    """Reads as any socket does, and keeps when the bytes of the last read arrived.

    Attributes:
        arrived: ``perf_counter`` at which the last byte of the last read came; None where the kernel does not
            tell.
    """

    arrived: float | None = None
    _stamps = False

    def stamp_reads(self) -> None:
        """Has the kernel note arrivals, where it can."""
        if sys.platform == "linux" and _ROOM:
            try:
                self.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            except OSError:
                return
            self._stamps = True

    def accept(self) -> tuple[StampedSocket, Any]:
        """As ``socket.accept``; the connection's reads are stamped too."""
        plain, address = super().accept()
        made = StampedSocket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        made.stamp_reads()
        return made, address

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """As ``socket.recv``."""
        if not self._stamps:
            return super().recv(bufsize, flags)
        data, ancillary, _, _ = self.recvmsg(bufsize, _ROOM, flags)
        self.arrived = _arrival(ancillary)
        return data

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        """As ``socket.recv_into``; TLS reads with it."""
        if not self._stamps:
            return super().recv_into(buffer, nbytes, flags)
        room = memoryview(buffer)[: nbytes or None]
        count, ancillary, _, _ = self.recvmsg_into([room], _ROOM, flags)
        self.arrived = _arrival(ancillary)
        return count


async def connected(host: str, port: int) -> StampedSocket:
    """A socket connected to the first address of a host that answers.

    Raises:
        OSError: the name is unknown, or no address answers; the error of the last.
    """
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError(f"no address for {host}")
    for family, kind, protocol, _, address in addresses:
        try:
            made = StampedSocket(family, kind, protocol)
        except OSError as error:
            failure = error
            continue
        try:
            made.setblocking(False)
            made.stamp_reads()
            await loop.sock_connect(made, address)
        except OSError as error:
            made.close()
            failure = error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failure


def _arrival(ancillary: list[tuple[int, int, bytes]]) -> float | None:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) == _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            waited = (time_ns() - 1_000_000_000 * seconds - nanoseconds) * 1e-9
            return perf_counter() - waited if 0 <= waited <= LONGEST_WAIT else None
    return None
