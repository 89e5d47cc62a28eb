"""Requests that other load generators send, and requests that nobody should."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

import pytest

from specdec.golden.settings import Settings

from .conftest import Start

pytestmark = pytest.mark.alone

BODY = b'{"messages":[],"max_tokens":3,"stream":true}'
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: golden\r\n"


def talk(url: str, *parts: bytes, wait_for: bytes = b"") -> bytes:
    """What the server answers. After the first part ``wait_for`` must come before the next is sent."""
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    answer = b""
    with socket.create_connection((place.hostname, place.port), timeout=10) as connection:
        for number, part in enumerate(parts):
            connection.sendall(part)
            while number == 0 and wait_for and wait_for not in answer:
                answer += connection.recv(4096)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65536):
            answer += piece
    return answer


@pytest.fixture
def url(start: Start) -> str:
    return start(Settings(ttft=0.01, step=0.001))[1]


def chunked(body: bytes, size: int, *, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    framed = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces)
    return framed + b"0\r\n" + trailer + b"\r\n"


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("extension", "trailer"), [(b"", b""), (b";a=b", b"X-Sum: 1\r\n")])
def test_a_chunked_body_is_read(url: str, size: int, extension: bytes, trailer: bytes) -> None:
    framed = chunked(BODY, size, extension=extension, trailer=trailer)
    answer = talk(url, POST + b"Transfer-Encoding: chunked\r\n\r\n" + framed)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"data: ") == 6, "a role, three tokens, the end, done"


def test_who_waits_for_a_go_ahead_gets_it(url: str) -> None:
    head = POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    began = time.monotonic()
    answer = talk(url, head, BODY, wait_for=b"100 Continue\r\n\r\n")
    assert b"[DONE]" in answer
    assert time.monotonic() - began < 5


def length(value: bytes) -> bytes:
    return POST + b"Content-Length: " + value + b"\r\n\r\n"


def with_body(body: bytes) -> bytes:
    return length(b"%d" % len(body)) + body


BAD = {
    "no JSON": with_body(b"{"),
    "no object": with_body(b"[1]"),
    "deep": with_body(b"[" * 100_000),
    "no request line": b"hello\r\n\r\n",
    "no colon": POST + b"nothing\r\n\r\n",
    "length of letters": length(b"abc"),
    "negative length": length(b"-1"),
    "endless length": length(b"9" * 40),
    "large length": length(b"%d" % (1 << 40)),
    "chunk of letters": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "endless chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffff\r\n",
    "chunk too long": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
}


@pytest.mark.parametrize("message", BAD.values(), ids=BAD)
def test_what_is_no_request_is_refused(url: str, message: bytes) -> None:
    assert talk(url, message).startswith(b"HTTP/1.1 400")
    assert b"[DONE]" in talk(url, with_body(BODY)), "and the server goes on"


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("value", ["1e24", "1000001", "0", "-1", "2.5", "true", '"10"', "NaN", "[]"])
def test_no_number_of_tokens_can_eat_the_machine(url: str, name: str, value: str) -> None:
    answer = talk(url, with_body(f'{{"messages":[],"{name}":{value},"stream":true}}'.encode()))
    assert answer.startswith(b"HTTP/1.1 400")
    assert name.encode() in answer


def test_a_head_without_end_is_refused(url: str) -> None:
    assert talk(url, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000).startswith(b"HTTP/1.1 400")
