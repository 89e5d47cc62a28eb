"""What a report costs where a run is large: CPU time and memory, for many test cases and for many requests.

    uv run python scripts/measure_report.py

Both runs are simulated and answer 100 tokens a request. Needs an idle machine. Wanted: under 20 s for the
first and under 8 s and 200 MB for the second; ``tests/report/test_size.py`` holds a fifth of each.
``loop`` tells how fast the machine was: 0.1 s where it is idle.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from specdec.runs.record import RequestRecord
from tests.report.sample import RUN, Case, records, write_run

CLASSES = ("structured", "code", "open", "extraction", "multilingual")
SIZES = {"300 test cases": (300, 4), "20,000 requests in ten test cases": (10, 500)}
"""What is measured: its test cases and the prompts of each, every prompt asked twice of two variants."""

_REPORT = """
import resource, sys, time
from pathlib import Path

def loop():
    begun, total = time.process_time(), 0
    for number in range(2_000_000):
        total += number % 7
    return time.process_time() - begun

first = loop()
from specdec.report import write
write(Path(sys.argv[1]))
used = resource.getrusage(resource.RUSAGE_SELF)
# ru_maxrss would be that of the process that started this one, where it is larger.
status = Path("/proc/self/status").read_text().splitlines()
most = int(next(line for line in status if line.startswith("VmHWM")).split()[1])
print(used.ru_utime + used.ru_stime - first, most / 1e3, (first + loop()) / 2)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one report took.

    Attributes:
        records: of the run.
        seconds: of CPU, start of the process included.
        megabytes: most memory at once.
        page: size of ``report.html`` in megabytes.
        loop: seconds that a loop of two million steps took then: how fast the machine was.
    """

    records: int
    seconds: float
    megabytes: float
    page: float
    loop: float


def cases(count: int, prompts: int) -> list[Case]:
    """Test cases of every acceptance, spread over the classes."""
    return [
        Case(f"case-{n:03}", CLASSES[n % 5], 0.3 + 0.6 * (n % 10) / 10, prompts=prompts) for n in range(count)
    ]


def in_blocks(lines: Sequence[RequestRecord]) -> list[RequestRecord]:
    """The requests in blocks of as many prompts as are in flight, as the schedule makes them."""
    numbers: dict[tuple[str, str], int] = {}
    made: list[RequestRecord] = []
    for line in lines:
        place = numbers.setdefault((line.test_case, f"{line.prompt} {line.repeat}"), len(numbers))
        made.append(replace(line, block=place // line.concurrency))
    return made


def cost(count: int, prompts: int) -> Cost:
    """The report of a run of so many test cases, made in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        lines = in_blocks(records(cases=cases(count, prompts), tokens=100))
        folder = write_run(Path(name) / RUN, lines)
        # Compiling the code is of the installation, not of the report.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{tempfile.gettempdir()}/specdec-measure-report"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", _REPORT, str(folder)]
        subprocess.run([sys.executable, "-c", "import specdec.report.files"], check=True, env=environment)
        said = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout
        seconds, megabytes, loop = map(float, said.split())
        page = (folder / "report.html").stat().st_size / 1e6
        return Cost(len(lines), seconds, megabytes, page, loop)


def main() -> None:
    """Prints a table."""
    print("| run | records | CPU time | memory | report.html | loop |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for title, size in SIZES.items():
        took = cost(*size)
        print(
            f"| {title} | {took.records:,} | {took.seconds:.1f} s | {took.megabytes:.0f} MB |"
            f" {took.page:.1f} MB | {took.loop:.2f} s |"
        )


if __name__ == "__main__":
    main()
