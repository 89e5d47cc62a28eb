"""Servers that want another request: fewer fields, other headers, another path, a pause."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from specdec.benchmark.fields import Fields
from specdec.commands.bench import command
from specdec.errors import BadInputError
from specdec.golden.dialects import DIALECTS
from specdec.metrics.tpot import tpot
from specdec.runs.folder import Run, read_run

from .conftest import MakePlan, Measure, Start

pytestmark = pytest.mark.slow

BODY: dict[str, Any] = {
    "max_tokens": 5,
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    "ignore_eos": True,
    "chat_template_kwargs": {"enable_thinking": False},
}


@pytest.mark.parametrize(
    ("words", "dropped"),
    [
        (
            "Extra inputs are not permitted: stream_options.continuous_usage_stats",
            ["stream_options.continuous_usage_stats"],
        ),
        ('{"detail":[{"type":"extra_forbidden","loc":["body","ignore_eos"]}]}', ["ignore_eos"]),
        ("Unknown field: chat_template_kwargs", ["chat_template_kwargs"]),
        ("unknown fields ignore_eos, chat_template_kwargs", ["ignore_eos", "chat_template_kwargs"]),
        ("Unrecognized request argument supplied: stream_options", ["stream_options"]),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", ["max_tokens"]),
        ("Additional properties are not allowed", ["stream_options.continuous_usage_stats"]),
    ],
)
def test_a_refused_field_is_given_up(words: str, dropped: list[str]) -> None:
    fields = Fields()
    assert fields.learn(words, BODY)
    assert fields.dropped == dropped


@pytest.mark.parametrize(
    "words", ["max_tokens is too large: 600 > 512", "overloaded", "no such model", "Unknown model: qwen", ""]
)
def test_other_refusals_give_up_nothing_by_name(words: str) -> None:
    fields = Fields()
    plain = {"max_tokens": 5, "stream": True}
    assert not fields.learn(words, plain)
    assert fields.fit(plain) == plain


def test_what_is_given_up_is_left_out_or_sent_by_another_name() -> None:
    fields = Fields()
    fields.dropped += ["stream_options.continuous_usage_stats", "ignore_eos", "max_tokens"]
    fitted = fields.fit(BODY)
    assert fitted == {
        "max_completion_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert BODY["stream_options"]["continuous_usage_stats"], "the other variant's request is not touched"


@pytest.mark.parametrize("dialect", ["azure", "strict"])
@pytest.mark.parametrize("warmup", [0, 2])
def test_a_strict_server_is_measured(
    dialect: str, warmup: int, start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    _, strict = start(DIALECTS[dialect][1])
    server, lax = start(DIALECTS["vllm"][1])
    manifest, records = measure(
        make_plan({"baseline": strict, "speculative": lax}, count=2, warmup=warmup, concurrency=2)
    )
    assert {record.outcome for record in records} == {"ok"}
    assert "ignore_eos" in manifest.dropped
    assert "stream_options.continuous_usage_stats" in manifest.dropped
    if warmup:
        measured = [record for record in records if not record.warmup]
        assert {record.token_source for record in measured} == {"final-usage"}, "of both variants"
        assert all(tpot(record) for record in measured)
    assert server.truths


Answer = Callable[[str, bytes], bytes]


def http(body: bytes, *, status: str = "200 OK", headers: str = "Content-Type: text/event-stream") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def events(*fields: dict[str, Any]) -> bytes:
    return (
        b"".join(b"data: " + json.dumps(field).encode() + b"\n\n" for field in fields) + b"data: [DONE]\n\n"
    )


WHOLE = http(
    events(
        {"choices": [{"delta": {"content": "a"}}], "usage": {"completion_tokens": 1}},
        {
            "choices": [{"delta": {"content": "b"}, "finish_reason": "length"}],
            "usage": {"completion_tokens": 2},
        },
    )
)
MODELS = http(b'{"data":[{"id":"m"},{"id":"n"}]}', headers="Content-Type: application/json")


class Server:
    """Answers by a function of head and body, and keeps both."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = [line.split(": ", 1) for line in head.split("\r\n")[1:] if line]
                length = int({name.lower(): value for name, value in lines}.get("content-length", "0"))
                body = await reader.readexactly(length)
                if head.startswith("POST"):
                    self.heads.append(head)
                    self.bodies.append(json.loads(body))
                writer.write(self.answer(head, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()


@pytest.fixture
def begin() -> Iterator[Callable[[Answer], Server]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    sockets: list[asyncio.Server] = []

    def start(answer: Answer) -> Server:
        server = Server(answer)
        listening = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(server.serve, "127.0.0.1", 0), loop
        ).result(10)
        sockets.append(listening)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        return server

    async def end() -> None:
        for listening in sockets:
            listening.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    yield start
    asyncio.run_coroutine_threadsafe(end(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def bench(folder: Path, *arguments: str) -> tuple[int, Run]:
    (folder / "p.txt").write_text("one\ntwo\n", encoding="utf-8")
    given = ["--prompts", str(folder / "p.txt"), "--out", str(folder / "runs"), "--warmup", "0"]
    more = ["--repeats", "1", "--output-tokens", "2", "--concurrency", "1"]
    done = CliRunner().invoke(command, [*arguments, *given, *more], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, read_run(next((folder / "runs").iterdir()))


def plain(head: str, _body: bytes) -> bytes:
    return MODELS if head.startswith("GET") else WHOLE


def test_headers_body_path_query_and_model_of_a_target(
    begin: Callable[[Answer], Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = begin(plain)
    monkeypatch.setenv("SOME_KEY", "k-123456789")
    url = f"{server.url}/openai/deployments/d/chat/completions?api-version=1&sig=geheim99"
    code, run = bench(
        tmp_path,
        *("--target", f"a={url}#m", "--target", f"b={server.url}#n", "--api-key-env", "SOME_KEY"),
        *("--api-key-header", "api-key", "--header", "X-Team: blue-team-7"),
        *("--extra-body", '{"top_k": 1, "temperature": 0.5}'),
    )
    assert code == 0
    assert {head.split(" ")[1] for head in server.heads} == {
        "/openai/deployments/d/chat/completions?api-version=1&sig=geheim99",
        "/v1/chat/completions",
    }
    assert all("\r\napi-key: k-123456789\r\n" in head for head in server.heads)
    assert all("\r\nX-Team: blue-team-7\r\n" in head for head in server.heads)
    assert {(body["model"], body["top_k"], body["temperature"]) for body in server.bodies} == {
        ("m", 1, 0.5),
        ("n", 1, 0.5),
    }
    assert [variant.get("model") for variant in run.manifest.variants.values()] == ["m", "n"]
    stored = "".join(path.read_text() for path in run.folder.iterdir())
    assert not {"k-123456789", "blue-team-7", "geheim99"} & {*stored.replace('"', " ").split()}
    assert "geheim99" not in stored
    assert "k-123456789" not in stored


@pytest.mark.parametrize("status", ["429 Slow Down", "503 Busy"])
def test_a_server_that_names_a_pause_is_asked_once_more(
    status: str, begin: Callable[[Answer], Server], tmp_path: Path
) -> None:
    busy = http(b"{}", status=status, headers="Retry-After: 1")
    refused = iter([busy])

    def answer(head: str, body: bytes) -> bytes:
        return plain(head, body) if head.startswith("GET") else next(refused, WHOLE)

    code, run = bench(tmp_path, "--target", f"{begin(answer).url}#m")
    assert code == 0
    first, second = run.records
    assert (first.outcome, second.outcome) == ("ok", "ok")
    assert first.note == "asked again after 1 s, as the server asked"
    assert first.chunk_times[-1] < 1, "the pause is no part of the request"
    assert second.note is None


@pytest.mark.parametrize("pause", ["", "0", "100000", "soon", "-1"])
def test_no_pause_or_one_too_long_is_not_waited_for(
    pause: str, begin: Callable[[Answer], Server], tmp_path: Path
) -> None:
    busy = http(b"{}", status="429 Slow Down", headers=f"Retry-After: {pause}")
    server = begin(lambda head, body: plain(head, body) if head.startswith("GET") else busy)
    code, run = bench(tmp_path, "--target", f"{server.url}#m")
    assert code == 1
    assert {record.outcome for record in run.records} == {"http-error"}
    assert len(server.heads) == len(run.records)


def test_a_compressed_answer_is_named(begin: Callable[[Answer], Server], tmp_path: Path) -> None:
    packed = http(b"\x1f\x8b", headers="Content-Type: text/event-stream\r\nContent-Encoding: gzip")
    server = begin(lambda head, body: plain(head, body) if head.startswith("GET") else packed)
    _, run = bench(tmp_path, "--target", f"{server.url}#m")
    assert {record.outcome for record in run.records} == {"bad-response"}
    assert "compressed (gzip)" in (run.records[0].error or "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--header", "nothing"], "has no colon"),
        (["--header", "a b: c"], "is not the name of a header"),
        (["--header", "Host: x"], "is set by the client itself"),
        (["--header", "A: b\nc"], "line breaks or control characters"),
        (["--header", "A: \u4f8b"], "no header can hold"),
        (["--extra-body", "[1]"], "is not a JSON object"),
        (["--extra-body", "{"], "is not a JSON object"),
        (["--extra-body", '{"a": NaN}'], "is not a JSON object"),
        (["--extra-body", '{"stream": false}'], "is set by the client itself"),
        (["--api-key-header", "api-key"], "has no key to send"),
        (["--cacert", "/nowhere/ca.pem"], "contains no readable certificate"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(
    arguments: list[str], said: str, begin: Callable[[Answer], Server], tmp_path: Path
) -> None:
    server = begin(plain)
    with pytest.raises(BadInputError, match=said):
        bench(tmp_path, "--target", f"{server.url}#m", *arguments)
    assert server.heads == []


def test_a_proxy_of_the_environment_is_said_to_be_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from specdec.benchmark.plan import Target
    from specdec.commands.request_options import changes

    given = dict.fromkeys(("api_key_env", "api_key_header", "extra_body", "cacert"))
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    for url, told in (("https://example.org/v1", True), ("http://127.0.0.1:8000", False)):
        target = Target(variant="a", url=url, role="baseline")
        changes({**given, "headers": (), "insecure": False}, [target])
        assert ("HTTPS_PROXY is ignored" in capsys.readouterr().err) == told
