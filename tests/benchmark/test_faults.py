"""Every fault the golden server can play, as the record it must become: counted as what it is, never dropped,
never a zero.
"""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from specdec.benchmark.client import Client, Timeouts
from specdec.golden.settings import FAULTS, Settings
from specdec.metrics import ALL

from .conftest import MakePlan, Measure, Start

pytestmark = pytest.mark.slow

FAST = Settings(ttft=0.01, step=0.002)

EXPECTED = {
    "http-400": ("http-error", "HTTP 400: golden: bad request"),
    "http-429": ("http-error", "HTTP 429: golden: too many requests"),
    "http-500": ("http-error", "HTTP 500: golden: internal error"),
    "http-502": ("http-error", "HTTP 502: <html><body><h1>502 Bad Gateway</h1></body></html>"),
    "error-event": ("stream-error", "golden: engine died"),
    "cut": ("cut", "the connection closed before the response ended; 6 chunks had arrived"),
    "reset": ("cut", "6 chunks had arrived"),
    "no-finish": ("cut", "the stream stopped without a finish reason; 6 chunks had arrived"),
    "silence": ("timeout", "nothing received for 1.5 s; 0 chunks had arrived"),
    "stall": ("timeout", "nothing received for 1.5 s; 6 chunks had arrived"),
    "early-eos": ("early-eos", "finish_reason 'stop' after 6 of 12 tokens"),
    "over-run": ("bad-response", "20 tokens, 12 were asked for"),
    "not-json": ("bad-response", "an event that is not JSON"),
    "not-a-chunk": ("bad-response", "an event without choices"),
    "json-body": ("bad-response", "not an event stream with tokens (application/json)"),
    "empty": ("bad-response", "not an event stream with tokens"),
    "bad-framing": ("bad-response", "chunk size b'zz'"),
    "not-http": ("bad-response", "not an HTTP/1.1 response"),
    "death": ("cut", "6 chunks had arrived"),
}


def test_every_fault_is_expected_here() -> None:
    assert EXPECTED.keys() == FAULTS.keys()


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "death"])
def test_a_fault_is_counted_as_what_it_is(
    fault: str, start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    _, url = start(replace(FAST, fault=fault, fault_every=2))
    manifest, records = measure(make_plan({"baseline": url}, concurrency=1))
    outcome, words = EXPECTED[fault]
    assert manifest.status == "complete"
    assert manifest.counts == {"baseline": {"ok": 2, outcome: 2}}
    assert [record.outcome for record in records] == ["ok", outcome, "ok", outcome]
    for record in records:
        if record.outcome == "ok":
            assert (record.error, record.output_tokens, len(record.chunk_times)) == (None, 12, 12)
        else:
            assert words in (record.error or "")
            if not record.chunk_times:
                assert [metric.name for metric in ALL if metric.of(record) is not None] == []


def test_a_server_that_dies_ends_the_run_and_keeps_the_records(
    start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    _, url = start(replace(FAST, fault="death", fault_every=3))
    manifest, records = measure(make_plan({"baseline": url}, count=40, concurrency=1))
    assert manifest.status == "failed"
    assert manifest.counts == {"baseline": {"ok": 2, "cut": 1, "refused": 3}}
    assert [record.outcome for record in records] == ["ok", "ok", "cut", "refused", "refused", "refused"]
    assert manifest.problem is not None
    assert manifest.problem.startswith(
        f"baseline at {url}: 4 requests in a row failed, the last one with refused: no connection to"
        " 127.0.0.1"
    )


def test_one_dead_server_ends_the_run_for_both(start: Start, make_plan: MakePlan, measure: Measure) -> None:
    _, good = start(FAST)
    _, dying = start(replace(FAST, fault="http-500"))
    for schedule in ("alternate", "concurrent"):
        manifest, records = measure(
            make_plan(
                {"baseline": good, "speculative": dying},
                count=30,
                concurrency=2,
                schedule=schedule,
                run=f"20261129T120000Z-{schedule}",
            )
        )
        assert manifest.status == "failed"
        assert "speculative at" in (manifest.problem or "")
        assert manifest.counts["speculative"]["http-error"] >= 4
        assert len(records) < 60


def test_requests_in_flight_are_waited_for_up_to_the_total_deadline(
    start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    _, url = start(Settings(ttft=0.01, step=0.05))
    manifest, records = measure(
        make_plan(
            {"baseline": url}, count=1, output_tokens=100, timeouts=Timeouts(connect=5, stall=5, total=0.3)
        )
    )
    assert manifest.counts == {"baseline": {"timeout": 1}}
    assert (records[0].error or "").startswith("not done within 0.3 s; ")
    assert 1 <= len(records[0].chunk_times) <= 8


def test_an_idle_connection_closed_by_the_server_is_not_a_failure(make_plan: MakePlan) -> None:
    served: list[int] = []
    body = (
        b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"length"}],'
        b'"usage":{"completion_tokens":12}}\n\n'
    )

    async def close_when_asked_again(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        served.append(1)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        # The next request on this connection is met by a close, as when both sides' idle limits cross.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"POST")
        writer.transport.abort()

    async def go() -> tuple[str, str]:
        server = await asyncio.start_server(close_when_asked_again, "127.0.0.1", 0)
        plan = make_plan({"baseline": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}, count=1)
        client = Client(plan.targets[0], plan.timeouts, {})
        job = plan.job(plan.prompts[0], 0, 0)
        first, second = await client.ask(job, plan), await client.ask(job, plan)
        client.close()
        server.close()
        await asyncio.sleep(0.05)
        return first.outcome, second.outcome

    assert asyncio.run(go()) == ("ok", "ok")
    assert len(served) == 2
