"""Is the crossing right on real streams? Golden servers with a planted crossing, measured by the client and
judged, seed by seed; and two alike servers, which must show none. Prints Markdown.

uv run python scripts/prove_crossing.py [--seeds 20] [--together 4]

A seed takes a minute and a half, most of it waiting, so that some run together. The truth is what the
settings say: the servers are held to it by the timer of the machine, so that a busy one is late in both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from specdec.analysis.judge import judge
from specdec.benchmark.plan import Plan, Target, new_run_id
from specdec.benchmark.run import run
from specdec.golden.server import GoldenServer
from specdec.golden.settings import Settings
from specdec.golden.truth import Speculation, crossing
from specdec.prompts.sets import Prompt
from specdec.runs.folder import read_run

PLAIN = Settings(ttft=0.05, step=0.03, batch_step=0.0005, counters="none")
DRAFTED = replace(PLAIN, step=0.05, batch_step=0.008, per_step=Speculation(0.7, 4))
LOADS = (1.0, 2.0, 4.0, 8.0, 16.0)
TOKENS = 100


def one(seed: int, alike: bool) -> dict[str, Any]:
    """One run of both servers, and what its verdict says of the crossing."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    settings = [replace(PLAIN, seed=2 * seed + 1), replace(PLAIN if alike else DRAFTED, seed=2 * seed)]
    servers = [GoldenServer(each) for each in settings]
    urls = [asyncio.run_coroutine_threadsafe(server.start(), loop).result(10) for server in servers]
    plan = Plan(
        run=new_run_id(),
        experiment="crossing",
        configuration={},
        configuration_hash="0" * 12,
        targets=(
            Target(variant="baseline", url=urls[0], role="baseline"),
            Target(variant="speculative", url=urls[1], role="speculative", window=4),
        ),
        prompts=tuple(
            Prompt(id=f"p{i}", test_case="case", prompt_class="open", text=f"Number {i}.") for i in range(8)
        ),
        output_tokens=TOKENS,
        concurrency=16,
        loads=LOADS,
        repeats=2,
        warmup=0,
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        run(plan, Path(folder) / plan.run)
        stored = read_run(Path(folder) / plan.run)
    for server in servers:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    verdict = judge(stored.manifest, stored.records)
    assert verdict.loads is not None
    (row,) = verdict.loads.rows
    turns = [(turn.load, turn.low, turn.high) for turn in row.crossings]
    late = sum(point.late for point in stored.manifest.points)
    decisions = [point.decision for point in row.points]
    return {"seed": seed, "alike": alike, "turns": turns, "late": late, "told": decisions}


def main() -> None:
    """Runs the seeds, some together, each in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--together", type=int, default=4)
    parser.add_argument("--one", type=int)
    parser.add_argument("--alike", action="store_true")
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(one(arguments.one, arguments.alike)))
        return
    tokens = DRAFTED.per_step.mean
    truth = crossing((PLAIN.step, PLAIN.batch_step), (DRAFTED.step, DRAFTED.batch_step), tokens)
    assert truth is not None
    work = [(seed, alike) for alike in (False, True) for seed in range(arguments.seeds)]

    def go(job: tuple[int, bool]) -> dict[str, Any]:
        seed, alike = job
        command = [sys.executable, "-m", "scripts.prove_crossing", "--one", str(seed)]
        ran = subprocess.run(
            [*command, *(["--alike"] if alike else [])], capture_output=True, text=True, check=True
        )
        result: dict[str, Any] = json.loads(ran.stdout)
        print(f"seed {seed}{', alike' if alike else ''}: {result['turns']}", file=sys.stderr, flush=True)
        return result

    with ThreadPoolExecutor(arguments.together) as pool:
        results = list(pool.map(go, work))
    planted = [each for each in results if not each["alike"]]
    first = [each["turns"][0] for each in planted if each["turns"]]
    near = sum(abs(load / truth - 1) <= 0.1 for load, _, _ in first)
    held = sum(low <= truth <= high for _, low, high in first)
    none = sum(not each["turns"] for each in results if each["alike"])
    late = sum(each["late"] > 0 for each in results)
    print("| truth | seeds | told | within 10% | interval holds it | alike: no crossing | client late |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    count = len(planted)
    print(
        f"| {truth:.2f} | {count} | {len(first)} | {near} | {held} | {none} of {count} |"
        f" {late} of {len(results)} |"
    )


if __name__ == "__main__":
    main()
