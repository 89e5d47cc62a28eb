from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec.benchmark.sse import EVENT_LIMIT, Decoder, Event


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(c % (len(data) + 1) for c in cuts)})
    return [data[a:b] for a, b in pairwise(edges)]


def decode(pieces: list[bytes]) -> list[Event]:
    decoder = Decoder()
    return [event for piece in pieces for event in decoder.feed(piece)]


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\n", [("message", "a")]),
        (b"data:a\n\ndata:b\n\n", [("message", "a"), ("message", "b")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [("message", "a"), ("message", "b")]),
        (b"data: a\r\rdata: b\r\r", [("message", "a"), ("message", "b")]),
        (b"data: a\ndata: b\ndata\n\n", [("message", "a\nb\n")]),
        (b": a comment\n\n: another\ndata: a\n\n", [("message", "a")]),
        (b"event: error\ndata: {}\n\ndata: b\n\n", [("error", "{}"), ("message", "b")]),
        (b"event: lonely\n\ndata: a\n\n", [("message", "a")]),
        (b"id: 7\nretry: 10\nunknown: x\ndata:  two spaces\n\n", [("message", " two spaces")]),
        (b"\xef\xbb\xbfdata: after a byte order mark\n\n", [("message", "after a byte order mark")]),
        ("data: grüße 城\n\n".encode(), [("message", "grüße 城")]),
        (b"data: never ended", []),
        (b"data: no empty line\n", []),
        (b"\n\n\n", []),
    ],
)
def test_events(data: bytes, events: list[tuple[str, str]]) -> None:
    assert decode([data]) == events
    assert decode([bytes([byte]) for byte in data]) == events


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=20)


@given(
    st.lists(st.lists(TEXT, min_size=1, max_size=3), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 500)),
)
def test_any_cut_gives_the_same_events(events: list[list[str]], end: str, cuts: list[int]) -> None:
    data = "".join(
        f": note{end}" + "".join(f"data: {line}{end}" for line in lines) + end for lines in events
    ).encode()
    assert decode(cut(data, cuts)) == [Event("message", "\n".join(lines)) for lines in events]


def test_a_carriage_return_ends_its_event_at_once() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: a\r\n\r") == [("message", "a")]
    assert decoder.feed(b"\ndata: b\r\n\r\n") == [("message", "b")]


@pytest.mark.parametrize("piece", [b"x" * (1 << 20), b"data: " + b"x" * (1 << 20) + b"\n"])
def test_an_endless_event_is_refused(piece: bytes) -> None:
    decoder = Decoder()
    assert not any(decoder.feed(piece) for _ in range(EVENT_LIMIT // (1 << 20) - 1))
    decoder.feed(piece)
    with pytest.raises(ValueError, match="more than"):
        decoder.feed(piece)
