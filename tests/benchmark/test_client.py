"""What is sent, and what becomes of an endpoint that cannot be reached."""

import asyncio
import contextlib
import socket
from dataclasses import replace

import pytest

from specdec.benchmark.client import Client, request_body
from specdec.benchmark.endpoint import Endpoint
from specdec.benchmark.http1 import Connection, Reads
from specdec.benchmark.plan import Plan
from specdec.prompts.sets import Prompt
from specdec.runs.record import RequestRecord

from .conftest import MakePlan


def ask(plan: Plan) -> RequestRecord:
    async def go() -> RequestRecord:
        client = Client(plan.targets[0], plan.timeouts, plan.headers)
        try:
            return await client.ask(plan.job(plan.prompts[0], 0, 0), plan)
        finally:
            client.close()

    return asyncio.run(go())


def test_the_body_of_a_chat_request(make_plan: MakePlan) -> None:
    prompt = Prompt(id="p", test_case="c", prompt_class="open", text="Hello", system="Be brief.")
    plan = make_plan({"baseline": "http://h"}, prompts=(prompt,), thinking=False)
    assert request_body(replace(plan.targets[0], model="m"), plan.job(prompt, 1, 0), plan) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "max_tokens": 12,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "ignore_eos": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_the_body_of_a_completions_request(make_plan: MakePlan) -> None:
    plan = make_plan(
        {"baseline": "http://h"},
        api="completions",
        temperature=0.7,
        seed=40,
        ignore_eos=False,
        near_ties=True,
    )
    body = request_body(
        replace(plan.targets[0], model="m", engine="llamacpp"), plan.job(plan.prompts[0], 2, 0), plan
    )
    assert body["prompt"] == "Tell me about the number 0."
    assert (body["seed"], body["logprobs"], body["timings_per_token"]) == (42, 2, True)
    assert not body.keys() & {"messages", "ignore_eos", "chat_template_kwargs"}


def test_thinking_is_said_only_where_it_is_set(make_plan: MakePlan) -> None:
    plan = make_plan({"baseline": "http://h"}, thinking=None)
    assert "chat_template_kwargs" not in request_body(plan.targets[0], plan.job(plan.prompts[0], 0, 0), plan)


def test_a_port_where_nobody_listens(make_plan: MakePlan) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        record = ask(make_plan({"baseline": f"http://127.0.0.1:{held.getsockname()[1]}"}))
    assert record.outcome == "refused"
    assert (record.error or "").endswith(": Connection refused")
    assert record.sent > 0


def test_a_name_that_nobody_has(make_plan: MakePlan) -> None:
    record = ask(make_plan({"baseline": "http://no-such-host.invalid"}))
    assert record.outcome in ("refused", "timeout")
    assert "no-such-host.invalid" in (record.error or "")


def test_tls_against_a_server_without(make_plan: MakePlan) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def go() -> RequestRecord:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        plan = make_plan({"baseline": f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"})
        record = await Client(plan.targets[0], plan.timeouts, {}).ask(plan.job(plan.prompts[0], 0, 0), plan)
        server.close()
        return record

    record = asyncio.run(go())
    assert record.outcome == "refused"
    assert "SSL" in (record.error or "")


def test_a_connection_that_never_comes_about(make_plan: MakePlan) -> None:
    # A full backlog drops what else knocks, which is the nearest that this machine has to a host that is not
    # there.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        knocks = [socket.socket() for _ in range(8)]
        for knock in knocks:
            knock.setblocking(False)
            knock.connect_ex(listener.getsockname())
        plan = make_plan({"baseline": f"http://127.0.0.1:{listener.getsockname()[1]}"})
        record = ask(replace(plan, timeouts=replace(plan.timeouts, connect=0.3, stall=0.3)))
        for knock in knocks:
            knock.close()
    assert record.outcome == "timeout"
    assert "within 0.3 s" in (record.error or "")


@pytest.mark.parametrize("status", [200, 401])
def test_headers_are_sent_and_not_stored(status: int, make_plan: MakePlan) -> None:
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"detail":"who are you?"}'
        writer.write(
            b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body)
        )
        await writer.drain()
        writer.close()

    async def go() -> RequestRecord:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        plan = make_plan(
            {"baseline": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"},
            headers={"Authorization": "Bearer secret"},
        )
        client = Client(plan.targets[0], plan.timeouts, plan.headers)
        record = await client.ask(plan.job(plan.prompts[0], 0, 0), plan)
        client.close()
        server.close()
        assert "secret" not in repr(plan)
        return record

    record = asyncio.run(go())
    assert b"Authorization: Bearer secret\r\n" in seen[0]
    assert "secret" not in record.to_json()
    if status == 401:
        assert (record.outcome, record.error) == ("http-error", "HTTP 401: who are you?")
    else:
        assert record.outcome == "bad-response"


def test_connections_of_an_interrupted_burst_are_closed_too(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Endpoint] = []
    opened: list[Connection] = []
    really = Connection.open

    async def first_one_only(endpoint: Endpoint, *, timeout: float, reads: Reads, tls: object) -> Connection:
        assert tls is None
        asked.append(endpoint)
        if len(asked) > 1:
            await asyncio.Event().wait()
        opened.append(await really(endpoint, timeout=timeout, reads=reads))
        return opened[0]

    ended = asyncio.Event()

    async def until_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.set()

    async def go() -> None:
        server = await asyncio.start_server(until_the_end, "127.0.0.1", 0)
        plan = make_plan({"baseline": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"})
        client = Client(plan.targets[0], plan.timeouts, {})
        warming = asyncio.create_task(client.warm(2))
        while not opened:
            await asyncio.sleep(0.001)
        warming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await warming
        client.close()
        await asyncio.wait_for(ended.wait(), 10)
        server.close()

    monkeypatch.setattr(Connection, "open", first_one_only)
    asyncio.run(go())
