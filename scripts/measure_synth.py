"""Measures synthesis of the default experiment on this machine and prints a table of medians. Nothing asserts
these times.

Run it with ``uv run python scripts/measure_synth.py``. Node is the one of the Python package. The app runs as
``cdk.json`` has it run; what ``cdk synth`` takes beyond it is the command's own. Cold means that jsii has to
unpack the CDK's packages first, as it does once per machine. Processor seconds count all processes and are
the steadier number on a machine that does other things too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

_PHASES = """
import gc, time
gc.disable()
marks = [("", time.perf_counter(), time.process_time())]
def mark(name):
    marks.append((name, time.perf_counter(), time.process_time()))
import aws_cdk
mark("import aws_cdk, start Node, load its packages")
import cdk8s_plus_27
mark("import cdk8s and cdk8s-plus, load their packages")
from stacks.app import add_stacks, new_app
mark("import our modules and the CDK's services")
from pathlib import Path
from specdec.experiment.reading import load
experiment = load(Path("experiment.toml"))
mark("read and check the experiment")
app = new_app(outdir=OUTDIR)
add_stacks(app, experiment)
mark("make the constructs, load the JavaScript behind them")
app.synth()
mark("write the template and its assets")
gc.freeze()
for (_, start, busy), (name, end, busy_end) in zip(marks, marks[1:]):
    print(f"{name}|{end - start}|{busy_end - busy}")
"""


@dataclass(frozen=True)
class Way:
    """One way to synthesize.

    Attributes:
        name: what the table calls it.
        command: program and arguments.
        validation: whether the CDK checks the template.
        cold: whether jsii starts with an empty cache.
    """

    name: str
    command: tuple[str, ...]
    validation: bool
    cold: bool = False


def _options() -> list[str]:
    """What ``cdk.json`` gives to Python: its options, then the app."""
    _, options = str(json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["app"]).split(" python ")
    return shlex.split(options)


def ways() -> list[Way]:
    """The rows of the table."""
    python = (sys.executable, *_options())
    cdk = (str(BIN / "node"), str(ROOT / "node_modules/aws-cdk/bin/cdk"), "synth", "-q")
    app = " ".join(("python", *_options()))
    return [
        Way(f"{app}, cold", python, validation=False, cold=True),
        Way(f"{app}, cold", python, validation=True, cold=True),
        Way(f"{app}, warm", python, validation=False),
        Way(f"{app}, warm", python, validation=True),
        Way("cdk synth, warm", cdk, validation=False),
        Way("cdk synth, warm", cdk, validation=True),
    ]


def once(way: Way) -> tuple[float, float]:
    """Wall and processor seconds of one synthesis."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**_environment(), "CDK_VALIDATION": "true" if way.validation else "false"}
        if way.command[0] == sys.executable:
            environment["CDK_OUTDIR"] = f"{folder}/out"
            command = way.command
        else:
            command = (*way.command, "--output", f"{folder}/out")
        if way.cold:
            environment["JSII_RUNTIME_PACKAGE_CACHE_ROOT"] = f"{folder}/cache"
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=600)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def phases() -> list[tuple[str, float, float]]:
    """Seconds of each part of one warm synthesis without validation: wall, and Python's processor. In the
    rest, Python waits for Node.

    The parts lack the start and the end of the processes.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = _PHASES.replace("OUTDIR", repr(f"{folder}/out"))
        environment = {**_environment(), "CDK_VALIDATION": "false"}
        command = [sys.executable, *_options()[:-1], "-c", program]
        completed = subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        )
    return [
        (name, float(wall), float(busy))
        for name, wall, busy in (line.split("|") for line in completed.stdout.splitlines())
    ]


def _environment() -> dict[str, str]:
    # Without compiled modules, every run would compile a hundred thousand lines of the CDK's again.
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PATH": f"{BIN}:{kept.get('PATH', '')}", "CDK_DISABLE_CLI_TELEMETRY": "true"}


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=5, help="runs per row; the cold row has one [default: 5]"
    )
    rounds: int = parser.parse_args().rounds
    node = subprocess.run(
        [BIN / "node", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    print(f"Python {sys.version.split()[0]}, Node {node}, {os.cpu_count()} processors, medians of {rounds}\n")
    once(ways()[1])
    print("| way | validation | wall, s | processor, s |\n| --- | --- | --- | --- |")
    for way in ways():
        runs = [once(way) for _ in range(1 if way.cold else rounds)]
        wall, processor = (statistics.median(column) for column in zip(*runs, strict=True))
        print(
            f"| {way.name} | {'on' if way.validation else 'off'} | {wall:.1f} | {processor:.1f} |", flush=True
        )
    measured = [phases() for _ in range(rounds)]
    print("\n| part of a warm run, validation off | wall, s | Python, s |\n| --- | --- | --- |")
    for part in zip(*measured, strict=True):
        wall, busy = (
            statistics.median(wall for _, wall, _ in part),
            statistics.median(busy for _, _, busy in part),
        )
        print(f"| {part[0][0]} | {wall:.2f} | {busy:.2f} |")


if __name__ == "__main__":
    main()
