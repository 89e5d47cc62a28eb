"""What the package and its extras take on the disk, and how long the everyday commands take.

    uv run python scripts/measure_install.py

Builds the wheel, installs it into empty environments, and prints the table of docs/install.md. Needs an idle
machine for the times.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from specdec.extras import DISTRIBUTION

ROOT = Path(__file__).parents[1]
EXTRAS = ("", "aws", "forecast", "rehearsal")


def uv(*arguments: str | Path) -> None:
    """Runs uv, from its cache where that has everything, else with the network.

    Raises:
        subprocess.CalledProcessError: it failed either way; the message is on stderr.
    """
    command = [os.environ.get("UV") or shutil.which("uv") or "uv", "--quiet", *map(str, arguments)]
    if subprocess.run([*command, "--offline"], cwd=ROOT, capture_output=True, check=False).returncode:
        subprocess.run(command, cwd=ROOT, check=True)


def wheel(folder: Path) -> Path:
    """Builds the wheel of this checkout into a folder."""
    uv("build", "--wheel", "--out-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


def install(built: Path, extra: str, folder: Path) -> Path:
    """Installs the wheel with an extra into an empty environment, in the versions the project pins.

    Returns:
        The environment's folder of commands.
    """
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]
    constraints = folder.with_suffix(".txt")
    constraints.write_text("\n".join(pins["constraint-dependencies"]), encoding="utf-8")
    uv("venv", "--python", sys.executable, folder)
    wanted = f"{DISTRIBUTION}[{extra}] @ {built.as_uri()}" if extra else f"{DISTRIBUTION} @ {built.as_uri()}"
    uv("pip", "install", "--python", folder / "bin" / "python", "--constraint", constraints, wanted)
    return folder / "bin"


def megabytes(folder: Path) -> float:
    """What the installed packages take, in 1e6 bytes, compiled code left out."""
    sizes = (
        path.stat().st_size
        for path in (folder / "lib").rglob("*")
        if path.is_file() and not path.is_symlink() and path.suffix != ".pyc"
    )
    return sum(sizes) / 1e6


def cpu_seconds(command: Sequence[str], folder: Path) -> float:
    """CPU time of a command that succeeds, of its children too: the least of three runs."""
    taken: list[float] = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def measure(bin_folder: Path, folder: Path) -> Path:
    """Measures two servers of known timing: 32 requests, in a folder that holds nothing else.

    Returns:
        The run's folder.
    """
    specdec = str(bin_folder / "specdec")
    prompts = folder / "prompts.txt"
    prompts.write_text(
        "".join(f"Say {word}.\n" for word in ("one", "two", "three", "four")), encoding="utf-8"
    )
    servers = [
        subprocess.Popen(
            [specdec, "golden", "--ttft-ms", "5", "--step-ms", "8", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for more in ([], ["--tokens-per-step", "3"])
    ]
    try:
        targets: list[str] = []
        for server in servers:
            assert server.stdout is not None
            line = next(line for line in server.stdout if "http://127.0.0.1" in line)
            targets += ["--target", line[line.index("http://") :].split()[0].rstrip(".,;")]
        arguments = ["--prompts", str(prompts), "--repeats", "4", "--output-tokens", "16"]
        subprocess.run([specdec, "bench", *targets, *arguments], cwd=folder, check=True, capture_output=True)
    finally:
        for server in servers:
            server.terminate()
            server.communicate()
    return next(path.parent for path in (folder / "runs").glob("*/manifest.json"))


def main() -> None:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = wheel(folder / "wheel")
        print("| installed | size |\n| --- | ---: |")
        for extra in EXTRAS:
            install(built, extra, folder / f"with-{extra}")
            title = f"`[{extra}]`" if extra else "the wheel alone"
            print(f"| {title} | {megabytes(folder / f'with-{extra}'):.0f} MB |")
        commands = folder / "with-" / "bin"
        run = measure(commands, folder)
        lines = sum(1 for _ in (run / "records.jsonl").open(encoding="utf-8"))
        print("\n| command | CPU time |\n| --- | ---: |")
        print(f"| `specdec --help` | {cpu_seconds([str(commands / 'specdec'), '--help'], folder):.2f} s |")
        report = [str(commands / "specdec"), "report", str(run)]
        print(f"| `specdec report`, {lines} requests | {cpu_seconds(report, folder):.2f} s |")


if __name__ == "__main__":
    main()
