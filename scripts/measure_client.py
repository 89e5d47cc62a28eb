"""Measures the exact lane's client against the golden server, and other load generators beside it. Prints
Markdown.

uv run python scripts/measure_client.py                 # exactness, cost and saturation of our own client:
about two minutes uv run python scripts/measure_client.py --with aiperf   # the same cells with aiperf,
installed apart into a temporary environment uv run python scripts/measure_client.py --quick         # fewer
requests, no saturation

Server and client are processes of their own. A cell is one server setting and one concurrency; the truth is
what the server did in that very run. Processor time is that of the client and its children, start included;
memory is that of its largest process, which for a tool of many processes is less than it takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

from specdec.runs.record import measured, read_records

MAIN = [sys.executable, "-c", "from specdec.cli import main; main()"]
TOKENS = 120
SERVERS = {
    "1 token per step": ["--ttft-ms", "200", "--step-ms", "20"],
    "4-8 tokens per step": ["--ttft-ms", "200", "--step-ms", "36", "--tokens-per-step", "4-8"],
}
CELLS = {1: 6, 4: 16, 64: 128}
"""Concurrency to requests."""

AIPERF = "aiperf==0.13.0"

WORDS = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(sys.argv[1])
"""
"""Makes the tokenizer that aiperf wants and, counting by the server's usage, has no need of. Its built-in one
is downloaded.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one tool said and cost, beside the truth. Times in milliseconds, medians over requests."""

    tool: str
    server: str
    concurrency: int
    requests: int
    tpot: float | None
    true_tpot: float
    ttft: float | None
    true_ttft: float
    tokens_per_step: float | None
    true_tokens_per_step: float
    cpu: float
    peak_mb: float
    start: float | None

    def row(self) -> str:
        """As a line of the table."""

        def pair(value: float | None, truth: float, digits: int) -> str:
            return f"{'-' if value is None else format(value, f'.{digits}f')} / {truth:.{digits}f}"

        off = "-" if self.tpot is None else f"{100 * (self.tpot / self.true_tpot - 1):+.2f}%"
        cells = [
            self.tool,
            self.server,
            str(self.concurrency),
            str(self.requests),
            pair(self.tpot, self.true_tpot, 2),
            off,
        ]
        cells += [
            pair(self.ttft, self.true_ttft, 1),
            pair(self.tokens_per_step, self.true_tokens_per_step, 2),
        ]
        cells += [
            f"{self.cpu:.2f}",
            f"{self.peak_mb:.0f}",
            "-" if self.start is None else f"{self.start:.2f}",
        ]
        return f"| {' | '.join(cells)} |"


HEAD = """| tool | server | in flight | requests | TPOT ms | off | TTFT ms | tokens per step \
| CPU s | peak MB | start s |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


@contextmanager
def golden(*arguments: str) -> Generator[tuple[str, list[dict[str, Any]]]]:
    """A golden server in its own process; the list holds its truth once the block has ended."""
    truth: list[dict[str, Any]] = []
    process = subprocess.Popen(
        [*MAIN, "golden", "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    url = process.stderr.readline().split()[2].removesuffix("/v1,")
    try:
        yield url, truth
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=30)
    truth.append(json.loads(out))


def timed(command: list[str], **options: Any) -> tuple[float, float, float]:
    """Runs a command. Returns when it was started, its processor seconds and its peak memory in MB, children
    included.
    """
    began = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with {process.returncode}:\n{errors.decode(errors='replace')[-2000:]}"
        )
    return began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def prompts(folder: Path, count: int) -> Path:
    """A prompt file of its own for each cell, all prompts different."""
    path = folder / f"prompts-{count}.jsonl"
    path.write_text(
        "".join(
            json.dumps({"prompt": f"Write about the number {number}."}) + "\n" for number in range(count)
        ),
        encoding="utf-8",
    )
    return path


def own(server: str, concurrency: int, count: int, folder: Path) -> Cell:
    """One cell with this project's client."""
    out = folder / f"own-{concurrency}-{len(list(folder.iterdir()))}"
    with golden(*SERVERS[server]) as (url, truth):
        command = [
            *MAIN,
            "bench",
            "--target",
            url,
            "--prompts",
            str(prompts(folder, count)),
            "--output-tokens",
            str(TOKENS),
        ]
        command += ["--repeats", "1", "--warmup", "0", "--concurrency", str(concurrency), "--out", str(out)]
        began, cpu, peak = timed(command)
    records = list(measured(read_records(next(out.iterdir()) / "records.jsonl")))
    if len(records) != count:
        raise SystemExit(f"{count - len(records)} of {count} requests failed")
    from specdec.metrics.tokens_per_step import tokens_per_step
    from specdec.metrics.tpot import tpot
    from specdec.metrics.ttft import ttft

    medians = [
        1000 * median(value for record in records if (value := of(record)) is not None) for of in (tpot, ttft)
    ]
    steps = median(value for record in records if (value := tokens_per_step(record)) is not None)
    true = truth[0]["median"]
    start = min(record.sent for record in records) - began
    return Cell(
        "specdec",
        server,
        concurrency,
        count,
        medians[0],
        1000 * true["tpot"],
        medians[1],
        1000 * true["ttft"],
        steps,
        true["tokens_per_step"],
        cpu,
        peak,
        start,
    )


def words(folder: Path, python: Path) -> Path:
    """A tokenizer for tools that want one, although they count by the server's usage."""
    path: Path = folder / "words"
    if not path.exists():
        subprocess.run([str(python), "-c", WORDS, str(path)], check=True, capture_output=True)
    return path


def aiperf_command(binary: Path, url: str, source: Path, tokenizer: Path, out: Path) -> list[str]:
    """The command line of aiperf on a golden server, counting by its usage. It leaves open how many requests.

    Args:
        binary: folder of the tool's own environment.
        url: of the server.
        source: prompts and lengths of answers.
        tokenizer: see ``words``.
        out: folder of the results.
    """
    command = [str(binary / "aiperf"), "profile", "--model", "golden", "--url", url]
    command += ["--endpoint-type", "chat"]
    command += ["--streaming", "--use-server-token-count", "--per-chunk-usage", "--ui", "none"]
    command += ["--input-file", str(source), "--custom-dataset-type", "single_turn"]
    command += ["--extra-inputs", "ignore_eos:true", "--extra-inputs", "temperature:0"]
    return [*command, "--tokenizer", str(tokenizer), "--output-artifact-dir", str(out)]


def aiperf(server: str, concurrency: int, count: int, folder: Path) -> Cell:
    """One cell with aiperf, from an environment of its own."""
    binary = folder / "aiperf-env" / "bin"
    if not binary.exists():
        # From another folder, since this project's pins are not meant for it.
        subprocess.run(
            ["uv", "venv", "-q", "--python", sys.executable, str(binary.parent)], check=True, cwd=folder
        )
        subprocess.run(
            ["uv", "pip", "install", "-q", "--python", str(binary / "python"), AIPERF], check=True, cwd=folder
        )
    tokenizer = words(folder, binary / "python")
    rows = "".join(
        json.dumps({"text": f"Write about the number {number}.", "output_length": TOKENS}) + "\n"
        for number in range(count)
    )
    source = folder / f"aiperf-{count}.jsonl"
    source.write_text(rows, encoding="utf-8")
    out = folder / f"aiperf-{concurrency}-{len(list(folder.iterdir()))}"
    with golden(*SERVERS[server]) as (url, truth):
        command = aiperf_command(binary, url, source, tokenizer, out)
        command += ["--concurrency", str(concurrency), "--request-count", str(count)]
        _, cpu, peak = timed(command)
    profile = json.loads(next(out.rglob("profile_export_aiperf.json")).read_text(encoding="utf-8"))
    true = truth[0]["median"]
    values = {
        name: profile.get(name, {}).get("p50") for name in ("inter_token_latency", "time_to_first_token")
    }
    return Cell(
        "aiperf 0.13.0",
        server,
        concurrency,
        truth[0]["requests"],
        values["inter_token_latency"],
        1000 * true["tpot"],
        values["time_to_first_token"],
        1000 * true["ttft"],
        None,
        true["tokens_per_step"],
        cpu,
        peak,
        None,
    )


async def flood(chunks: int) -> None:
    """A server that answers every request at once with events made beforehand: faster than any client can
    read.
    """
    events = b"".join(
        b'data: {"id":"flood","object":"chat.completion.chunk","created":0,"model":"flood",'
        b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}],'
        b'"usage":{"prompt_tokens":16,"total_tokens":%d,"completion_tokens":%d}}\n\n' % (16 + number, number)
        for number in range(1, chunks + 1)
    )
    events += b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(events)
    models = b'{"data":[{"id":"flood","owned_by":"flood"}]}'

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                length = int(request.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
                await reader.readexactly(length)
                if request.startswith(b"POST"):
                    writer.write(head)
                    for start in range(0, len(events), 1 << 14):
                        writer.write(events[start : start + (1 << 14)])
                        await writer.drain()
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(models), models))
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def drink(url: str, chunks: int, requests: int, out: Path) -> None:
    """Reads the flood and prints chunks per second, per processor second, and memory after a tenth and at the
    end.
    """
    from specdec.benchmark.course import RunEvent
    from specdec.benchmark.plan import Plan, Target, new_run_id
    from specdec.benchmark.run import run
    from specdec.prompts.sets import Prompt

    held: list[float] = []

    def watch(event: RunEvent) -> None:
        if event.record is not None:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            held.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)

    plan = Plan(
        run=new_run_id(),
        experiment="flood",
        configuration={},
        configuration_hash="",
        targets=(Target(variant="flood", url=url, role="baseline"),),
        prompts=(Prompt(id="p", test_case="flood", prompt_class="open", text="Go on."),),
        output_tokens=chunks,
        repeats=requests,
        concurrency=8,
        warmup=0,
    )
    began, used = perf_counter(), os.times()
    manifest = run(plan, out / "run", on_event=watch)
    seconds, now = perf_counter() - began, os.times()
    cpu = now.user + now.system - used.user - used.system
    if manifest.counts != {"flood": {"ok": requests}}:
        raise SystemExit(f"flood: {manifest.counts} {manifest.problem}")
    print(
        json.dumps(
            {"wall": seconds, "cpu": cpu, "tenth": held[len(held) // 10], "end": held[-1], "most": max(held)}
        )
    )


def saturation(folder: Path, chunks: int, requests: int) -> str:
    """Chunks per second at which one core is full, and what a million chunks leave in memory."""
    script = [sys.executable, __file__]
    server = subprocess.Popen([*script, "--flood", str(chunks)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        command = [*script, "--drink", url, str(chunks), str(requests), str(folder)]
        usage = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    finally:
        server.terminate()
        server.wait(10)
    total = chunks * requests
    wall, cpu = usage["wall"], usage["cpu"]
    return (
        f"{total:,} chunks on 8 streams: {total / wall:,.0f} per second of wall time, {total / cpu:,.0f} per"
        f" second of one core ({100 * cpu / wall:.0f}% of it used).\nMemory: {usage['tenth']:.1f} MB after a"
        f" tenth, {usage['end']:.1f} MB at the end, {usage['most']:.1f} MB at most."
    )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--with", dest="others", action="append", choices=["aiperf"], default=[], help="measure this tool too"
    )
    parser.add_argument(
        "--quick", action="store_true", help="concurrency 1 and 4 with few requests, no saturation"
    )
    parser.add_argument("--flood", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--drink", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.flood:
        asyncio.run(flood(arguments.flood))
        return
    if arguments.drink:
        drink(arguments.drink[0], int(arguments.drink[1]), int(arguments.drink[2]), Path(arguments.drink[3]))
        return
    tools = [own, *({"aiperf": aiperf}[name] for name in arguments.others)]
    cells = {1: 2, 4: 8} if arguments.quick else CELLS
    with tempfile.TemporaryDirectory() as name:
        print(f"Told by the tool / true at the server, medians over requests.\n\n{HEAD}")
        for server in SERVERS:
            for concurrency, count in cells.items():
                for tool in tools:
                    print(tool(server, concurrency, count, Path(name)).row(), flush=True)
                    sleep(0.5)
        print(
            f"\nLoad average of the machine: {', '.join(f'{value:.1f}' for value in os.getloadavg())};"
            f" {os.cpu_count()} cores."
        )
        if not arguments.quick:
            print(f"\n{saturation(Path(name), 2000, 500)}")


if __name__ == "__main__":
    main()
