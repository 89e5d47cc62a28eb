"""Real certificates: of an authority of one's own, and every kind that is to be refused."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from specdec.benchmark.client import Timeouts
from specdec.errors import SpecdecError
from specdec.golden.settings import Settings

from .conftest import MakePlan, Measure, Start

HOST = "127.0.0.1"
NOW = datetime.now(UTC)
GOOD: tuple[datetime, datetime] = (NOW - timedelta(days=1), NOW + timedelta(days=9))

Certified = Callable[[str, tuple[datetime, datetime]], str]


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def authorities(authority: trustme.CA, tmp_path: Path) -> Path:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path / "ca.pem"


@contextmanager
def tunnel(context: ssl.SSLContext, port: int) -> Generator[int]:
    """A TLS server that hands everything on to a port of this machine."""

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(HOST, port)
        try:
            await asyncio.gather(
                pour(reader, inner_writer), pour(inner_reader, writer), return_exceptions=True
            )
        finally:
            # A client that refuses the certificate leaves both ends open.
            for end in (inner_writer, writer):
                end.transport.abort()

    async def begin() -> asyncio.Server:
        return await asyncio.start_server(serve, HOST, 0, ssl=context)

    async def end(server: asyncio.Server) -> None:
        server.close()
        current = asyncio.current_task()
        rest = [task for task in asyncio.all_tasks() if task is not current]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        # A transport closes one turn of the loop after it is told to.
        await asyncio.sleep(0.01)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        server = asyncio.run_coroutine_threadsafe(begin(), loop).result(10)
        yield server.sockets[0].getsockname()[1]
        asyncio.run_coroutine_threadsafe(end(server), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture
def certified(authority: trustme.CA, start: Start) -> Iterator[Certified]:
    """The address of a golden server behind TLS, with a certificate for a name and a time."""
    with ExitStack() as opened:

        def begin(name: str, valid: tuple[datetime, datetime]) -> str:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate = authority.issue_cert(name, not_before=valid[0], not_after=valid[1])
            with certificate.private_key_and_cert_chain_pem.tempfile() as path:
                context.load_cert_chain(path)
            _, url = start(Settings(ttft=0.001, step=0.001))
            port = opened.enter_context(tunnel(context, urlsplit(url).port or 80))
            return f"https://{HOST}:{port}/v1"

        yield begin


def test_an_authority_of_ones_own_is_trusted_when_named(
    certified: Certified, authorities: Path, make_plan: MakePlan, measure: Measure
) -> None:
    manifest, records = measure(
        make_plan({"baseline": certified(HOST, GOOD)}, count=2, authorities=authorities)
    )
    assert (manifest.status, {record.outcome for record in records}) == ("complete", {"ok"})
    assert all(len(record.chunk_times) > 1 for record in records), "tokens come one by one through TLS too"


@pytest.mark.parametrize(
    ("name", "valid", "named", "remedy"),
    [
        (HOST, GOOD, False, "--cacert"),
        ("127.0.0.2", GOOD, True, "Use the name"),
        ("models.example", GOOD, True, "Use the name"),
        (HOST, (NOW - timedelta(days=9), NOW - timedelta(days=1)), True, "has expired: renew it"),
        (HOST, (NOW + timedelta(days=1), NOW + timedelta(days=9)), True, "clocks"),
    ],
    ids=["unknown authority", "another address", "another name", "expired", "not yet valid"],
)
def test_what_cannot_be_trusted_gets_its_own_remedy(
    name: str,
    valid: tuple[datetime, datetime],
    named: bool,
    remedy: str,
    certified: Certified,
    authorities: Path,
    make_plan: MakePlan,
    measure: Measure,
) -> None:
    url = certified(name, valid)
    plan = make_plan({"baseline": url}, count=2, authorities=authorities if named else None)
    with pytest.raises(SpecdecError) as refused:
        measure(plan)
    assert remedy in f"{refused.value} {refused.value.remedy}"


@pytest.mark.parametrize("silent", [False, True], ids=["it answers", "it waits for more"])
def test_https_to_a_server_without_tls_gets_its_own_remedy(
    silent: bool, start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    with socket.create_server((HOST, 0)) as listening:
        port = listening.getsockname()[1] if silent else urlsplit(start(Settings())[1]).port
        url = f"https://{HOST}:{port}/v1"
        plan = make_plan({"baseline": url}, count=2, timeouts=Timeouts(connect=0.5))
        with pytest.raises(SpecdecError) as refused:
            measure(plan)
    assert "write http://" in (refused.value.remedy or "")


def test_insecure_trusts_anything_and_the_manifest_says_so(
    certified: Certified, make_plan: MakePlan, measure: Measure
) -> None:
    expired = (NOW - timedelta(days=9), NOW - timedelta(days=1))
    manifest, records = measure(
        make_plan({"baseline": certified("models.example", expired)}, count=2, insecure=True)
    )
    assert {record.outcome for record in records} == {"ok"}
    assert manifest.environment["load"]["certificates"] == "any"
