"""When bytes came, whenever they are read."""

import asyncio
import socket
import sys
from time import perf_counter, sleep

import pytest

from specdec import stamped
from specdec.benchmark.http1 import Exchange, Reads
from specdec.golden.settings import Settings
from specdec.metrics.tpot import TPOT
from specdec.metrics.ttft import TTFT
from specdec.stamped import StampedSocket, connected

from .conftest import MakePlan, Measure, Start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps reads")


def pair() -> tuple[StampedSocket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        async def go() -> StampedSocket:
            return await connected(*listening.getsockname())

        own = asyncio.run(go())
        other, _ = listening.accept()
    own.setblocking(True)
    # A kernel that nobody has asked for times begins to take them a moment later.
    deadline = perf_counter() + 10
    while own.arrived is None and own._stamps and perf_counter() < deadline:  # pyright: ignore[reportPrivateUsage]
        other.sendall(b"first")
        own.recv(99)
    return own, other


@pytest.mark.parametrize("into", [False, True])
def test_a_late_read_tells_when_the_bytes_had_come(into: bool) -> None:
    own, other = pair()
    with own, other:
        other.sendall(b"hello")
        sent = perf_counter()
        sleep(0.08)
        buffer = bytearray(99)
        read = bytes(buffer[: own.recv_into(buffer)]) if into else own.recv(99)
        assert read == b"hello"
        assert own.arrived is not None
        assert abs(own.arrived - sent) < 0.02


def test_a_clock_that_was_set_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = pair()
    with own, other:
        for shift in (-3600, 3600):
            other.sendall(b"hello")
            now = stamped.time_ns()
            monkeypatch.setattr(stamped, "time_ns", lambda now=now, shift=shift: now + shift * 10**9)
            assert own.recv(99) == b"hello"
            assert own.arrived is None
            monkeypatch.undo()


def test_where_nothing_stamps_reads_are_those_of_any_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamped.sys, "platform", "darwin")
    own, other = pair()
    with own, other:
        other.sendall(b"hello")
        assert own.recv(99) == b"hello"
        assert own.arrived is None


def test_a_client_that_is_kept_from_reading_still_knows_the_times(
    start: Start, make_plan: MakePlan, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every read is put off by up to 15 ms, of steps that take 40: no read holds two.
    take, count = Exchange.feed, iter(range(10**6))

    def late(self: Exchange, data: bytes, stamp: float) -> int:
        sleep(0.015 * (next(count) % 2))
        return take(self, data, stamp)

    monkeypatch.setattr(Exchange, "feed", late)
    server, url = start(Settings(ttft=0.1, step=0.04))
    _, records = measure(make_plan({"baseline": url}, count=2, concurrency=1, output_tokens=12))
    for record, truth in zip(records, server.truths, strict=True):
        assert TPOT.of(record) == pytest.approx(truth.tpot, rel=0.02)
        assert TTFT.of(record) == pytest.approx(truth.ttft, abs=0.01)


def test_late_reads_that_hold_several_tokens_are_counted() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def go() -> list[int]:
        exchange = Exchange(lambda piece, stamp: None)
        part = b"3\r\nabc\r\n"
        return [exchange.feed(data, 0.0) for data in (head, part, part + part, part + b"0\r\n\r\n")]

    assert asyncio.run(go()) == [0, 1, 2, 0]


def test_the_share_of_blurred_reads_is_that_of_a_point() -> None:
    point, client = Reads(), Reads(count=10, stamped=10, blurred=2)
    before = client.copy()
    client.count, client.stamped, client.blurred = 30, 30, 7
    point.add(client, since=before)
    assert point.blurred_share == 0.25
    # One that came before the kernel began to tell.
    client.count += 1
    assert client.blurred_share is None
    client.count, client.stamped = 1000, 999
    assert client.blurred_share == pytest.approx(7 / 999, abs=1e-6)
    assert Reads().blurred_share is None
