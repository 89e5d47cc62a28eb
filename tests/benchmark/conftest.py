"""Golden servers on threads of their own, and plans against them."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specdec.benchmark.client import Timeouts
from specdec.benchmark.plan import Plan, Target
from specdec.benchmark.run import run
from specdec.golden.server import GoldenServer
from specdec.golden.settings import Settings
from specdec.prompts.sets import Prompt
from specdec.runs.manifest import RunManifest
from specdec.runs.record import RequestRecord, read_records

Start = Callable[[Settings], tuple[GoldenServer, str]]
MakePlan = Callable[..., Plan]
Measure = Callable[[Plan], tuple[RunManifest, list[RequestRecord]]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a golden server on a thread; all are stopped afterwards."""
    # Server and client share this process; its threads must not hold each other up for the usual five
    # milliseconds.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers: list[GoldenServer] = []

    def begin(settings: Settings) -> tuple[GoldenServer, str]:
        server = GoldenServer(settings)
        servers.append(server)
        return server, asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)

    yield begin
    for server in servers:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
    sys.setswitchinterval(interval)


@pytest.fixture
def make_plan() -> MakePlan:
    """A small plan; any field of ``Plan`` can be given, ``urls`` by variant name and ``count`` of prompts
    too.
    """

    def make(urls: dict[str, str], *, count: int = 4, cases: int = 1, **fields: object) -> Plan:
        given: dict[str, object] = {
            "run": "20261129T120000Z-abcdef",
            "experiment": "test",
            "configuration": {"benchmark": {"temperature": 0.0}},
            "configuration_hash": "0" * 12,
            "targets": tuple(
                Target(variant=name, url=url, role="speculative" if index else "baseline")
                for index, (name, url) in enumerate(urls.items())
            ),
            "prompts": tuple(
                Prompt(
                    id=f"p{i}",
                    test_case=f"case-{i % cases}",
                    prompt_class="open",
                    text=f"Tell me about the number {i}.",
                )
                for i in range(count)
            ),
            "output_tokens": 12,
            "repeats": 1,
            "warmup": 0,
            "timeouts": Timeouts(connect=5, stall=1.5, total=20),
        }
        return Plan(**{**given, **fields})  # pyright: ignore[reportArgumentType]

    return make


@pytest.fixture
def measure(tmp_path: Path) -> Measure:
    """Carries out a plan and reads back what it left."""

    def go(plan: Plan) -> tuple[RunManifest, list[RequestRecord]]:
        folder = tmp_path / plan.run
        manifest = run(plan, folder)
        return manifest, list(read_records(folder / "records.jsonl"))

    return go


@pytest.fixture
def record() -> Callable[..., RequestRecord]:
    """A record whose fields can all be given."""

    def make(**fields: object) -> RequestRecord:
        given: dict[str, object] = {
            "run": "r",
            "lane": "exact",
            "variant": "baseline",
            "test_case": "case",
            "prompt_class": "open",
            "prompt": "p",
            "repeat": 0,
            "block": 0,
            "warmup": False,
            "concurrency": 1,
            "sent_utc": "2026-11-29T12:00:00.000Z",
            "sent": 0.0,
            "outcome": "ok",
        }
        return RequestRecord(**{**given, **fields})  # pyright: ignore[reportArgumentType]

    return make
