"""Server-sent events, decoded from bytes as they arrive.

Follows the event stream interpretation of the WHATWG HTML standard, section 9.2: lines end with LF, CR or
CRLF, a line that starts with a colon is a comment, several data lines are joined by LF, an empty line ends
the event.
"""

from __future__ import annotations

from typing import NamedTuple

EVENT_LIMIT = 16 * 1024 * 1024
"""Bytes one event may have. More is not a token stream, and must not fill the memory of a day-long run."""

_DATA = b"data: "


class Event(NamedTuple):
    """One event: its type (``message`` unless named) and its data."""

    type: str
    data: str


class Decoder:
    """Turns bytes into events, whatever the cuts between reads."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._type = ""
        self._after_cr = False
        self._started = False

    def feed(self, piece: bytes) -> list[Event]:
        """Events that ``piece`` completes, in order.

        Raises:
            ValueError: an event is larger than ``EVENT_LIMIT``, or its data is not UTF-8.
        """
        if piece.startswith(_DATA) and (whole := self._whole(piece)) is not None:
            return [whole]
        if self._after_cr and piece:
            piece = piece[1:] if piece[0] == 0x0A else piece
            self._after_cr = False
        if b"\r" in piece:
            # A carriage return ends its line at once: waiting for the line feed would give this event the
            # next one's time.
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) + self._size > EVENT_LIMIT:
            raise ValueError(f"an event of more than {EVENT_LIMIT} bytes")
        if not self._started and lines:
            self._started = True
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        return [event for line in lines if (event := self._line(line)) is not None]

    def _whole(self, piece: bytes) -> Event | None:
        """The event, if ``piece`` is exactly one event of a single line, as most are; else None."""
        simple = piece.find(b"\n") == len(piece) - 2 and piece.endswith(b"\n") and b"\r" not in piece
        if not simple or self._rest or self._data or self._type or len(piece) > EVENT_LIMIT:
            return None
        self._after_cr, self._started = False, True
        return Event("message", piece[len(_DATA) : -2].decode())

    def _line(self, line: bytes) -> Event | None:
        if not line:
            event = Event(self._type or "message", b"\n".join(self._data).decode()) if self._data else None
            self._data, self._size, self._type = [], 0, ""
            return event
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value)
            if self._size > EVENT_LIMIT:
                raise ValueError(f"an event of more than {EVENT_LIMIT} bytes")
        elif name == b"event":
            self._type = value.decode(errors="replace")
        return None
