from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec.benchmark.endpoint import Endpoint
from specdec.benchmark.http1 import HEAD_LIMIT, Cut, ProtocolError, ResponseParser


def parse(pieces: list[bytes], *, closed: bool = False) -> tuple[ResponseParser, bytes]:
    parser = ResponseParser()
    body = b"".join(piece for data in pieces for piece in parser.feed(data))
    if closed:
        parser.end()
    return parser, body


def chunked(parts: list[bytes]) -> bytes:
    return (
        b"".join(b"%x;note=1\r\n%b\r\n" % (len(part), part) for part in parts if part)
        + b"0\r\nX-Trailer: 1\r\n\r\n"
    )


@given(st.lists(st.binary(max_size=60), max_size=6), st.lists(st.integers(0, 600)))
def test_chunks_cut_anywhere(parts: list[bytes], cuts: list[int]) -> None:
    data = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n" + chunked(parts)
    edges = sorted({0, len(data), *(c % (len(data) + 1) for c in cuts)})
    parser, body = parse([data[a:b] for a, b in pairwise(edges)])
    assert (parser.status, body, parser.complete, parser.keep_alive) == (200, b"".join(parts), True, True)


def test_a_chunk_is_handed_on_before_it_is_whole() -> None:
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert parser.feed(b"a\r\n12345") == [b"12345"]
    assert parser.feed(b"67890") == [b"67890"]


def test_counted_body() -> None:
    parser, body = parse(
        [b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhel", b"lo"]
    )
    assert (parser.status, body, parser.complete, parser.keep_alive) == (404, b"hello", True, False)


def test_body_until_close() -> None:
    parser, body = parse([b"HTTP/1.0 200 OK\r\n\r\nhel", b"lo"], closed=True)
    assert (body, parser.complete, parser.keep_alive) == (b"hello", True, False)


def test_interim_response_is_passed_over() -> None:
    parser, body = parse([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
    assert (parser.status, body) == (200, b"ok")


def test_no_content() -> None:
    parser, _ = parse([b"HTTP/1.1 204 No Content\r\n\r\n"])
    assert parser.complete


@pytest.mark.parametrize(
    "data",
    [
        b"220 mail.example ESMTP\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nnot a header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * HEAD_LIMIT,
    ],
)
def test_what_is_not_http_is_said(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse([data])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ],
)
def test_an_early_end_is_a_cut(data: bytes) -> None:
    with pytest.raises(Cut):
        parse([data] if data else [], closed=True)


@pytest.mark.parametrize(
    ("url", "authority", "route", "page"),
    [
        ("http://h:8000", "h:8000", "/v1/models", "/metrics"),
        ("http://h:8000/v1/", "h:8000", "/v1/models", "/metrics"),
        ("http://h/v1/chat/completions", "h", "/v1/models", "/metrics"),
        ("https://h/openai/v1", "h", "/openai/v1/models", "/openai/metrics"),
        ("http://h:80/v1/completions", "h", "/v1/models", "/metrics"),
        ("http://[::1]:8000", "[::1]:8000", "/v1/models", "/metrics"),
        ("http://h/api/v3", "h", "/api/v3/models", "/api/metrics"),
        ("http://h/a", "h", "/a/v1/models", "/a/metrics"),
        (
            "https://h/openai/deployments/qwen/chat/completions?api-version=2024-10-21",
            "h",
            "/openai/deployments/qwen/models?api-version=2024-10-21",
            "/openai/deployments/qwen/metrics",
        ),
        ("https://h/v1?key=a%20b&x=1 2", "h", "/v1/models?key=a%20b&x=1%202", "/metrics"),
    ],
)
def test_urls(url: str, authority: str, route: str, page: str) -> None:
    endpoint = Endpoint.of(url)
    assert (endpoint.authority, endpoint.tls) == (authority, url.startswith("https"))
    assert (endpoint.below_base("/models"), endpoint.of_server("/metrics")) == (route, page)


@pytest.mark.parametrize("url", ["h:8000", "ftp://h", "http://", "http://h:port", "http://[::1", ""])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ValueError, match="not an http"):
        Endpoint.of(url)
