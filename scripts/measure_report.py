"""What a report costs where a run is large: CPU time and memory, for many test cases and for many requests.

    uv run python scripts/measure_report.py

Both runs are simulated and answer 100 tokens a request. Needs an idle machine.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.report.sample import RUN, Case, records, write_run

CLASSES = ("structured", "code", "open", "extraction", "multilingual")
SIZES = {"300 test cases": (300, 4), "20,000 requests in ten test cases": (10, 500)}
"""What is measured: its test cases and the prompts of each, every prompt asked twice of two variants."""


def cases(count: int, prompts: int) -> list[Case]:
    """Test cases of every acceptance, spread over the classes."""
    return [
        Case(f"case-{n:03}", CLASSES[n % 5], 0.3 + 0.6 * (n % 10) / 10, prompts=prompts) for n in range(count)
    ]


def main() -> None:
    """Prints a table."""
    print("| run | records | CPU time | memory | report.html |\n| --- | ---: | ---: | ---: | ---: |")
    for title, size in SIZES.items():
        with tempfile.TemporaryDirectory() as name:
            lines = records(cases=cases(*size), tokens=100)
            folder = write_run(Path(name) / RUN, lines)
            command = (
                f"from pathlib import Path; from specdec.report import write; write(Path({str(folder)!r}))"
            )
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", command], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            memory = after.ru_maxrss / 1e3
            page = (folder / "report.html").stat().st_size / 1e6
            print(f"| {title} | {len(lines):,} | {seconds:.1f} s | {memory:.0f} MB | {page:.1f} MB |")


if __name__ == "__main__":
    main()
