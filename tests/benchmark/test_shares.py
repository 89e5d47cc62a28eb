"""Several clients measure one run: shares of the plan, the meeting, and what is merged."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from specdec.analysis.judge import judge
from specdec.benchmark.load import blocks
from specdec.benchmark.meeting import Host, Member, MemberLostError, Share, Unaccompanied
from specdec.errors import BadInputError, EnvironmentFault
from specdec.golden.settings import Settings
from specdec.metrics.system_throughput import system_throughput
from specdec.metrics.tpot import TPOT
from specdec.metrics.ttft import TTFT
from specdec.runs.folder import Run, read_run
from specdec.runs.manifest import MANIFEST
from specdec.runs.record import RECORDS, measured
from specdec.runs.shares import SHARE, share_folder

from .conftest import MakePlan, Start

TWO = {"baseline": "http://a", "speculative": "http://b"}
MAIN = [sys.executable, "-c", "from specdec.cli import main; main()"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.mark.parametrize("of", [2, 3, 5])
@pytest.mark.parametrize("arrival", ["closed", "poisson"])
def test_shares_are_the_plan_and_no_request_twice(of: int, arrival: str, make_plan: MakePlan) -> None:
    plan = make_plan(TWO, count=4, cases=2, loads=(1.0, 3.0, 16.0), arrival=arrival, repeats=2)
    whole = list(blocks(plan))
    shares = [list(blocks(replace(plan, share=Share(index, of, "127.0.0.1:9")))) for index in range(of)]
    for number, block in enumerate(whole):
        own = [share[number] for share in shares]
        sent = Counter((job.prompt.id, job.repeat) for each in own for job in each.own)
        assert sent == Counter((job.prompt.id, job.repeat) for job in block.jobs)
        assert all(each.order == block.order for each in own)
        if arrival == "closed":
            assert sum(each.width for each in own) == block.width == block.plan.concurrency
            # Who keeps nothing in flight has nothing to send, and nobody has less to send than in flight.
            assert all(each.width <= len(each.own) and bool(each.width) == bool(each.own) for each in own)
    totals = [replace(plan, share=Share(index, of, "127.0.0.1:9")).total for index in range(of)]
    assert sum(totals) == plan.total


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (Share(2, 2, "127.0.0.1:9"), "not one of 2 clients"),
        (Share(0, 2), "no place to meet"),
        (Share(0, 2, "127.0.0.1:0"), "no place to meet"),
        (Share(0, 0), "less than 1"),
    ],
)
def test_wrong_shares_are_refused(share: Share, said: str, make_plan: MakePlan) -> None:
    with pytest.raises(BadInputError) as caught:
        replace(make_plan(TWO), share=share)
    assert said in str(caught.value)


def test_nobody_goes_on_before_all_have_come() -> None:
    came: list[str] = []

    async def member(index: int, port: int) -> None:
        own = Member(Share(index, 3, f"127.0.0.1:{port}"), "plan")
        assert await own.open() == "run"
        await asyncio.sleep(0.05 * index)
        came.append(f"member {index}")
        assert await own.all_at("one", "ignored") == "go"
        came.append("on")
        await own.close()

    async def go() -> None:
        port = free_port()
        host = Host(Share(0, 3, f"127.0.0.1:{port}"), "plan", "run")
        others = [asyncio.create_task(member(index, port)) for index in (1, 2)]
        await host.open()
        came.append("host")
        assert await host.all_at("one", "go") == "go"
        came.append("on")
        await asyncio.gather(*others)
        await host.close()

    asyncio.run(go())
    assert sorted(came[:3]) == ["host", "member 1", "member 2"]
    assert came[3:] == ["on"] * 3
    assert asyncio.run(Unaccompanied().all_at("one", "go")) == "go"


def test_another_plan_is_refused_and_a_client_that_does_not_come_is_named() -> None:
    async def go() -> None:
        port = free_port()
        host = Host(Share(0, 3, f"127.0.0.1:{port}", join_seconds=1.0), "plan", "run")
        opening = asyncio.create_task(host.open())
        await asyncio.sleep(0.05)
        for share, plan, said in (
            (Share(1, 3, f"127.0.0.1:{port}"), "other", "its plan is another one"),
            (Share(1, 2, f"127.0.0.1:{port}"), "plan", "it counts 2 clients, and index 0 3"),
        ):
            member = Member(share, plan)
            with pytest.raises(BadInputError) as refused:
                await member.open()
            assert said in str(refused.value)
            await member.close()
        right = Member(Share(1, 3, f"127.0.0.1:{port}"), "plan")
        waiting = asyncio.create_task(right.open())
        with pytest.raises(EnvironmentFault, match="index 2 of 3 clients did not come within 1 s"):
            await opening
        with pytest.raises(BadInputError):
            await waiting
        await right.close()

    asyncio.run(go())


def test_whoever_is_left_hears_of_a_loss() -> None:
    async def go() -> None:
        port = free_port()
        place = f"127.0.0.1:{port}"
        host = Host(Share(0, 3, place), "plan", "run")
        members = [Member(Share(index, 3, place), "plan") for index in (1, 2)]
        await asyncio.gather(host.open(), *(member.open() for member in members))
        steps = [asyncio.create_task(each.all_at("one")) for each in (host, members[0])]
        await asyncio.sleep(0.05)
        await members[1].close()
        for step in steps:
            with pytest.raises(MemberLostError, match="client 2 of 3"):
                await step
        with pytest.raises(MemberLostError):
            await host.all_at("two")
        await members[0].close()
        await host.close()

    asyncio.run(go())


def client(folder: Path, url: str, *options: str) -> subprocess.Popen[bytes]:
    prompts = folder / "prompts.txt"
    prompts.write_text("".join(f"Tell me of number {i}.\n" for i in range(8)), encoding="utf-8")
    command = [*MAIN, "bench", "--target", url, "--prompts", str(prompts), "--warmup", "0"]
    command += ["--output-tokens", "24", "--out", str(folder / "runs"), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def forget(run: Path) -> None:
    for name in (RECORDS, MANIFEST):
        (run / name).unlink()


def run_of(folder: Path) -> Run:
    return read_run(next(path for path in (folder / "runs").iterdir() if path.is_dir()))


@pytest.mark.slow
@pytest.mark.alone
def test_two_clients_are_one(start: Start, tmp_path: Path) -> None:
    _, url = start(Settings(ttft=0.1, step=0.02, batch_step=0.0005))
    runs: dict[int, Run] = {}
    for of in (1, 2):
        folder = tmp_path / str(of)
        folder.mkdir()
        together = ["--of", str(of), "--meet", f"127.0.0.1:{free_port()}"]
        clients = [
            client(folder, url, "--load", "1,8", "--repeats", "2", *together, "--index", str(index))
            for index in range(of)
        ]
        for each in clients:
            _, errors = each.communicate(timeout=60)
            assert each.returncode == 0, errors
        runs[of] = run_of(folder)
    alone, both = runs[1], runs[2]
    assert both.manifest.status == "complete"
    assert both.manifest.counts == alone.manifest.counts == {"baseline": {"ok": 32}}
    assert both.manifest.environment["shares"] == {"of": 2, "missing": []}
    assert [(p.load, p.planned, p.sent, p.end) for p in both.manifest.points] == [
        (p.load, p.planned, p.sent, p.end) for p in alone.manifest.points
    ]
    for load in (1.0, 8.0):
        own = {of: [r for r in measured(run.records) if r.load == load] for of, run in runs.items()}
        assert Counter((r.prompt, r.repeat) for r in own[1]) == Counter((r.prompt, r.repeat) for r in own[2])
        for metric, off in ((TPOT, 0.0006), (TTFT, 0.015)):
            values = {of: median(v for r in own[of] if (v := metric.of(r)) is not None) for of in own}
            assert values[2] == pytest.approx(values[1], abs=off)
        # Fillers count here: of both clients, on one clock.
        rates = [
            system_throughput([r for r in run.records if r.load == load and r.block >= 0])
            for run in runs.values()
        ]
        assert rates[1] == pytest.approx(rates[0], rel=0.06)
    # At a load of 8 each keeps four of them in flight; at 1 the second has nothing to do.
    second = read_run(share_folder(both.folder, 1))
    assert {r.load for r in second.records} == {8.0}
    assert second.manifest.environment[SHARE] == {"index": 1, "of": 2}
    assert judge(both.manifest, both.records).status == "complete"
    # Shares that somebody copied together are merged by whoever reads them.
    forget(both.folder)
    again = read_run(both.folder)
    assert (again.records, again.manifest) == (both.records, both.manifest)
    forget(both.folder)
    (share_folder(both.folder, 0) / MANIFEST).unlink()
    part = read_run(both.folder)
    assert part.manifest.status == "failed"
    assert (part.manifest.problem or "").startswith("share 0 of 2 (counted from 0) is missing")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_lost_share_is_missing_and_said(number: int, start: Start, tmp_path: Path) -> None:
    _, url = start(Settings(ttft=0.05, step=0.02))
    together = ["--of", "2", "--meet", f"127.0.0.1:{free_port()}", "--load", "2,8", "--repeats", "9"]
    clients = [client(tmp_path, url, *together, "--index", str(index)) for index in (0, 1)]
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, StopIteration):
            path = next((tmp_path / "runs").glob("*/share-1/" + RECORDS))
            if path.read_text(encoding="utf-8").count("\n") > 2:
                break
        time.sleep(0.05)
    os.kill(clients[1].pid, number)
    for each in clients:
        each.communicate(timeout=30)
    assert clients[0].returncode == 1
    run = run_of(tmp_path)
    assert run.manifest.status == "failed"
    assert run.manifest.problem is not None
    assert run.records
    if number == signal.SIGKILL:
        assert run.manifest.problem.startswith("share 1 of 2 (counted from 0) is missing")
        assert run.manifest.environment["shares"] == {"of": 2, "missing": [1]}
    else:
        # It was asked to end, and what it had measured is among the records.
        assert "share 1 of 2 (counted from 0): Ctrl-C" in run.manifest.problem
        assert {r.sent_utc for r in read_run(share_folder(run.folder, 1)).records} <= {
            r.sent_utc for r in run.records
        }
    assert judge(run.manifest, run.records).status == "failed"
