"""Sweeps over load by other load generators beside ours, against servers of known truth. Prints Markdown.

    uv run python scripts/compare_sweeps.py --tools FOLDER [--loads 1,8,64,256] [--tool specdec --tool aiperf]

FOLDER holds a virtual environment per tool, ``aiperf`` (aiperf 0.13.0) and ``guidellm`` (guidellm 0.8.1), as
``uv venv FOLDER/aiperf && uv pip install --python FOLDER/aiperf/bin/python aiperf==0.13.0`` makes them. They
are no dependencies of this project. Each is run as its documents say for several concurrencies in one go, and
counts tokens by the server's usage.

One server has a step that is always the same, one a step that grows with the batch. The truth of a load is
what the server did to the requests that ran while so many were in flight, whatever tool sent them; the true
throughput is that of a service held at the load. Processor time is that of the client and its children, start
included; memory is that of its largest process. Needs an idle machine: about a minute for each tool and
server.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from scripts.measure_client import aiperf_command, golden, timed, words
from scripts.measure_loads import BATCH, MAIN, PLAIN, truths
from specdec.analysis.judge import judge
from specdec.metrics.tpot import TPOT
from specdec.metrics.ttft import TTFT
from specdec.runs.folder import read_run
from specdec.runs.record import measured

TOKENS = 120
SECONDS = 12
"""For each load of the other tools: four rounds of requests."""

SERVERS = {"fixed step": PLAIN, "step grows with the batch": BATCH}


@dataclass(frozen=True, slots=True)
class Point:
    """One load: seconds, and tokens per second of the service; None for what a tool does not tell."""

    tpot: float | None
    ttft: float | None
    throughput: float | None


Points = dict[int, Point]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one tool told, and what it took."""

    points: Points
    seconds: float
    cpu: float
    peak_mb: float


def prompts(folder: Path, key: str, tokens: str) -> Path:
    """A file of different prompts, in the layout that a tool reads."""
    path = folder / f"{key}.jsonl"
    rows = [{key: f"Write about the number {number}.", tokens: TOKENS} for number in range(2000)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def specdec(url: str, loads: Sequence[int], folder: Path, tools: Path) -> Sweep:
    """Our own client."""
    del tools
    source = folder / "prompts.txt"
    source.write_text("".join(f"Write about the number {i}.\n" for i in range(8)), encoding="utf-8")
    command = [*MAIN, "bench", "--target", url, "--prompts", str(source), "--out", str(folder / "runs")]
    command += ["--load", ",".join(map(str, loads)), "--repeats", "1", "--warmup", "0"]
    command += ["--output-tokens", str(TOKENS), "--no-check-texts"]
    began = monotonic()
    _, cpu, peak = timed(command)
    seconds = monotonic() - began
    run = read_run(next(path for path in (folder / "runs").iterdir() if path.is_dir()))
    verdict = judge(run.manifest, run.records)
    served = {} if verdict.loads is None else {s.load: s.tokens_per_second for s in verdict.loads.served}
    points: Points = {}
    for load in loads:
        own = [record for record in measured(run.records) if record.load == load]
        times = [
            median(value for record in own if (value := of(record)) is not None) for of in (TPOT.of, TTFT.of)
        ]
        points[load] = Point(times[0], times[1], served.get(float(load)))
    return Sweep(points, seconds, cpu, peak)


def aiperf(url: str, loads: Sequence[int], folder: Path, tools: Path) -> Sweep:
    """The sweep of aiperf: a list of concurrencies."""
    binary = tools / "aiperf" / "bin"
    out = folder / "aiperf"
    source = prompts(folder, "text", "output_length")
    command = aiperf_command(binary, url, source, words(folder, binary / "python"), out)
    command += ["--concurrency", ",".join(map(str, loads)), "--benchmark-duration", str(SECONDS)]
    began = monotonic()
    _, cpu, peak = timed(command, cwd=folder)
    seconds = monotonic() - began
    points: Points = {}
    for load in loads:
        name = f"concurrency_{load}"
        path = next((p for p in out.rglob("profile_export_aiperf.json") if p.parent.name == name), None)
        told: dict[str, Any] = {} if path is None else json.loads(path.read_text(encoding="utf-8"))

        def value(metric: str, part: str, told: dict[str, Any] = told) -> float | None:
            return told.get(metric, {}).get(part)

        tpot, ttft = value("inter_token_latency", "p50"), value("time_to_first_token", "p50")
        points[load] = Point(
            None if tpot is None else tpot / 1000,
            None if ttft is None else ttft / 1000,
            value("output_token_throughput", "avg"),
        )
    return Sweep(points, seconds, cpu, peak)


def guidellm(url: str, loads: Sequence[int], folder: Path, tools: Path) -> Sweep:
    """The concurrent profile of guidellm, with its streams overridden in turn."""
    binary = tools / "guidellm" / "bin"
    out = folder / "guidellm.json"
    command = [str(binary / "guidellm"), "run", "--backend", f"kind=openai_http,target={url},model=golden"]
    command += ["--profile", "kind=concurrent,streams=1"]
    command += ["--override", "profile.streams", ",".join(map(str, loads))]
    command += ["--constraint", f"kind=max_duration,seconds={SECONDS}"]
    command += ["--tokenizer", f"kind=huggingface_auto,model={words(folder, binary / 'python')}"]
    command += ["--data", f"kind=json_file,path={prompts(folder, 'prompt', 'output_tokens_count')}"]
    command += ["--output", f"kind=json,path={out}", "--disable-console"]
    began = monotonic()
    _, cpu, peak = timed(command, cwd=folder)
    seconds = monotonic() - began
    points: Points = {}
    for load, benchmark in zip(loads, json.loads(out.read_text(encoding="utf-8"))["benchmarks"], strict=True):
        metrics: dict[str, Any] = benchmark["metrics"]
        told = {name: metrics[name]["successful"] for name in GUIDELLM}
        points[load] = Point(
            told["inter_token_latency_ms"]["median"] / 1000,
            told["time_to_first_token_ms"]["median"] / 1000,
            told["output_tokens_per_second"]["mean"],
        )
    return Sweep(points, seconds, cpu, peak)


GUIDELLM = ("inter_token_latency_ms", "time_to_first_token_ms", "output_tokens_per_second")

TOOLS: dict[str, Callable[[str, Sequence[int], Path, Path], Sweep]] = {
    "specdec": specdec,
    "aiperf": aiperf,
    "guidellm": guidellm,
}


def truth_of(each: Sequence[dict[str, Any]], loads: Sequence[int]) -> Points:
    """What the server did at each load: a request belongs to the load that is nearest to how many were in
    flight in its middle.
    """
    # Those that a client ends early, since they only held the load, are in flight too.
    spans = [_span(one) for one in each if one["tokens"] > 1]
    begins, ends = sorted(begin for begin, _ in spans), sorted(end for _, end in spans)
    groups: dict[int, list[dict[str, Any]]] = {load: [] for load in loads}
    for one in each:
        if one["tokens"] != TOKENS:
            continue
        middle = sum(_span(one)) / 2
        flying = bisect_right(begins, middle) - bisect_left(ends, middle)
        groups[min(loads, key=lambda load: abs(log(load / max(1, flying))))].append(one)
    points: Points = {}
    for load, own in groups.items():
        if own:
            tpot, ttft = median(one["tpot_s"] for one in own), median(one["ttft_s"] for one in own)
            points[load] = Point(tpot, ttft, load * TOKENS / (ttft + tpot * (TOKENS - 1)))
    return points


def _span(one: dict[str, Any]) -> tuple[float, float]:
    """When the server read a request, and when it wrote its last token."""
    begin = float(one["read_at"])
    return begin, begin + float(one["ttft_s"]) + float(one["tpot_s"]) * (int(one["tokens"]) - 1)


def rows(tool: str, server: str, sweep: Sweep, truth: Points) -> list[str]:
    """Lines of the table, one per load."""
    lines: list[str] = []
    for load, point in sweep.points.items():
        true = truth.get(load)
        cells = [tool, server, str(load)]
        if true is None or point.tpot is None:
            cells += ["not reached", "-", "-"]
        else:
            cells += [
                _off(point.tpot, true.tpot),
                "-" if point.ttft is None else f"{1000 * (point.ttft - (true.ttft or 0)):+.1f} ms",
                _off(point.throughput, true.throughput),
            ]
        first = load == next(iter(sweep.points))
        cells += (
            [f"{sweep.seconds:.0f} s", f"{sweep.cpu:.1f} s", f"{sweep.peak_mb:.0f} MB"] if first else [""] * 3
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _off(value: float | None, true: float | None) -> str:
    return "-" if value is None or not true else f"{100 * (value / true - 1):+.2f}%"


def main() -> None:
    """Runs the sweeps and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", type=Path, required=True, help="folder of virtual environments")
    parser.add_argument("--tool", action="append", choices=list(TOOLS), help="all by default")
    parser.add_argument("--loads", default="1,8,64,256")
    arguments = parser.parse_args()
    loads = [int(part) for part in arguments.loads.split(",")]
    tools = arguments.tools.resolve()
    print("| tool | server | in flight | TPOT off | TTFT off | throughput off | time | CPU | memory |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for server, settings in SERVERS.items():
        for tool in arguments.tool or TOOLS:
            with tempfile.TemporaryDirectory() as folder, golden(*settings) as (url, _):
                sweep = TOOLS[tool](url, loads, Path(folder), tools)
                truth = truth_of(truths(url), loads)
            print("\n".join(rows(tool, server, sweep, truth)), flush=True)
    print(f"\nLoad average at the end: {', '.join(f'{value:.1f}' for value in os.getloadavg())}.")


if __name__ == "__main__":
    main()
