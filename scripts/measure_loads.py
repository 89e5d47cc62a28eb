"""Measures several loads in one run against the golden server: exactness of every point, cost of the client,
and whether a starved client is told. Prints Markdown.

uv run python scripts/measure_loads.py                  # loads 1, 8, 64 and 256, about half a minute
uv run python scripts/measure_loads.py --batch          # against a server whose step grows with the batch
uv run python scripts/measure_loads.py --starve         # with more busy processes than processors beside it

Server and client are processes of their own; the truth of a point is what the server did in that very point.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

from scripts.measure_client import MAIN, golden
from specdec.metrics.tpot import TPOT
from specdec.metrics.ttft import TTFT
from specdec.runs.folder import read_run
from specdec.runs.record import measured

LOADS = (1, 8, 64, 256)
TOKENS = 120
PLAIN = ["--ttft-ms", "200", "--step-ms", "20"]
HEAD = "| load | requests | TPOT ms / true | off | TTFT ms / true | lag ms | blurred | late | CPU s | MB |"
BATCH = [*PLAIN, "--batch-ms", "0.05"]


@contextmanager
def starved(on: bool) -> Generator[None]:
    """Busy processes, two for each processor, at a higher priority than the client's."""
    count = 2 * (os.cpu_count() or 1) if on else 0
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def ours(url: str, loads: tuple[int, ...]) -> tuple[list[dict[str, Any]], float, float]:
    """Points of one bench, its CPU seconds and the peak of its memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        prompts = Path(folder) / "prompts.txt"
        prompts.write_text("".join(f"Tell me about the number {i}.\n" for i in range(8)), encoding="utf-8")
        command = [*MAIN, "bench", "--target", url, "--prompts", str(prompts), "--out", folder]
        command += ["--load", ",".join(map(str, loads)), "--repeats", "1", "--warmup", "0"]
        command += ["--output-tokens", str(TOKENS)]
        ran = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(ran.pid, 0)
        run = read_run(next(path for path in Path(folder).iterdir() if path.is_dir()))
        points: list[dict[str, Any]] = []
        for point in run.manifest.points:
            own = [record for record in measured(run.records) if record.load == point.load]
            points.append(
                {
                    "load": point.load,
                    "requests": len(own),
                    "tpot": median(v for r in own if (v := TPOT.of(r)) is not None),
                    "ttft": median(v for r in own if (v := TTFT.of(r)) is not None),
                    "late": point.late,
                    "lag": point.loop_lag_seconds,
                    "blurred": point.blurred,
                    "span": (min(r.sent for r in own), max(r.sent + r.chunk_times[-1] for r in own)),
                }
            )
        return points, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def truths(url: str) -> list[dict[str, Any]]:
    """Every request as the server saw it."""
    with urlopen(f"{url}/truth") as answer:  # noqa: S310
        return json.load(answer)["each"]


def main() -> None:
    """Runs the cells and prints them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", action="store_true")
    parser.add_argument("--starve", action="store_true")
    parser.add_argument("--loads", default=",".join(map(str, LOADS)))
    arguments = parser.parse_args()
    loads = tuple(int(part) for part in arguments.loads.split(","))
    print(HEAD)
    print(f"|{' --- |' * 10}")
    with golden(*(BATCH if arguments.batch else PLAIN)) as (url, _), starved(arguments.starve):
        points, cpu, peak = ours(url, loads)
        seen = [each for each in truths(url) if each["tokens"] == TOKENS]
        for point in points:
            own = [t for t in seen if point["span"][0] <= t["read_at"] <= point["span"][1]]
            tpot, ttft = median(t["tpot_s"] for t in own), median(t["ttft_s"] for t in own)
            print(
                f"| {point['load']:g} | {point['requests']} |"
                f" {1000 * point['tpot']:.3f} / {1000 * tpot:.3f} |"
                f" {100 * (point['tpot'] / tpot - 1):+.2f}% |"
                f" {1000 * point['ttft']:.1f} / {1000 * ttft:.1f} | {1000 * (point['lag'] or 0):.1f} |"
                f" {'-' if point['blurred'] is None else format(point['blurred'], '.1%')} |"
                f" {point['late']} | {cpu:.1f} | {peak:.0f} |"
            )


if __name__ == "__main__":
    main()
