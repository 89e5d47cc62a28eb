"""``specdec report``: the verdict on a stored run, or what changed between two."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specdec import console
from specdec.commands.options import json_option, objective_options, price_option, prices_of, runs_option
from specdec.errors import EXIT_FAILED, EXIT_OK, BadInputError, Mistake

if TYPE_CHECKING:
    from specdec.analysis.regression import Regression
    from specdec.analysis.verdict import Verdict


@click.command()
@click.argument("names", metavar="[RUN [RUN]]", nargs=-1)
@runs_option
@click.option("--stack", metavar="NAME", help="Take the run from the bucket of this deployed stack.")
@click.option(
    "--region", help="Region of the stack or bucket.  [default: the one that the stack's name ends with]"
)
@click.option("--unfinished", is_flag=True, help="Report a run that was killed, too: numbers, no verdict.")
@click.option(
    "--watch",
    is_flag=True,
    help="Serve the page of a run in progress on 127.0.0.1, until Ctrl-C; by default the latest.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="With --watch: the port.  [default: a free one]")
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="NAME=FIRST",
    help="With two runs: a variant of the second and its name in the first; may be given again.",
)
@click.option(
    "--fail-on-regression",
    is_flag=True,
    help="With two runs: end with 1 if a row got slower or no longer counts. Undecided is no regression.",
)
@click.option(
    "--requests",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.csv",
    help="Also write every measured request as a row of a table.",
)
@price_option
@objective_options
@json_option
def command(
    names: tuple[str, ...],
    runs: Path,
    stack: str | None,
    region: str | None,
    unfinished: bool,
    watch: bool,
    port: int | None,
    renames: tuple[str, ...],
    fail_on_regression: bool,
    requests: Path | None,
    prices: tuple[str, ...],
    ttft_ms: float | None,
    tpot_ms: float | None,
    as_json: bool,
) -> int:
    """The verdict on a run: speculative against baseline, with plots and cost.

    Prints it, and writes report.html, report.md and report.json beside the run's records. A RUN is a folder,
    a run id, or s3://bucket/runs/<run id>; without one it is the latest. Two RUNs are compared: what changed
    from the first to the second.

    \b
    specdec report
    specdec report --stack qwen3-specdec-us-east-2
    specdec report --watch
    specdec report 20261129T180000Z-5a17ed 20261206T180000Z-0b8c11 --fail-on-regression

    Exit codes: 0 done; 1 the run did not complete, or a variant has no request that succeeded, so that there
    is no verdict, or --fail-on-regression found one; 2 no such run, not a whole one, or none to compare.
    """  # noqa: D301 (click reads the backspace itself as: keep these lines)
    from specdec.runs.find import find
    from specdec.runs.unfinished import newest

    if len(names) > 2:
        raise BadInputError(
            "command line",
            [Mistake("RUN", " ".join(names), "is more than two runs", "Name one run, or two to compare")],
        )
    if watch:
        _require_here(names, stack)
        return _watch(names[0] if names else None, runs, port)
    if unfinished and stack is None and not names:
        names = (str(newest(runs)),)
    folders = [find(name, runs=runs, stack=stack, region=region) for name in names or (None,)]
    _require_fitting(len(folders), renames, requests, prices, failing=fail_on_regression)
    if len(folders) == 2:
        worse = _two(folders[0], folders[1], runs, _mapping(renames), as_json, decidable=fail_on_regression)
        return EXIT_FAILED if worse and fail_on_regression else EXIT_OK
    if requests is not None:
        _write_requests(folders[0], requests)
    options = {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms}
    limits = {name: limit for name, limit in options.items() if limit is not None}
    return _one(folders[0], limits, prices, unfinished, as_json)


def _require_here(names: tuple[str, ...], stack: str | None) -> None:
    remote = stack or next((name for name in names if name.startswith("s3://")), None)
    if remote is not None or len(names) > 1:
        problem = "is not a run of this machine" if remote else "is two runs"
        value = remote or " ".join(names)
        raise BadInputError("command line", [Mistake("--watch", value, problem, "Name one run folder")])


def _watch(name: str | None, runs: Path, port: int | None) -> int:
    from specdec.report.watch import serving
    from specdec.runs.find import find
    from specdec.runs.unfinished import newest

    folder = newest(runs) if name is None else find(name, runs=runs)
    with serving(folder, port or 0) as address:
        console.say(f"watching {folder}: open {address}; Ctrl-C ends it")
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return EXIT_OK


def _one(
    folder: Path, limits: dict[str, float], prices: tuple[str, ...], unfinished: bool, as_json: bool
) -> int:
    from specdec.report import terminal, write

    with console.progress(f"judging {folder}"):
        written = write(
            folder,
            limits,
            prices=lambda variants: prices_of(prices, variants),
            unfinished=unfinished,
        )
    if as_json:
        console.show_json(written.numbers.read_text(encoding="utf-8"))
    else:
        terminal.show(written.verdict)
    if not unfinished and (line := _resuming(folder)):
        console.say(f"to go on with it: {line}")
    console.say(f"report: {written.html}")
    empty = _without_a_success(written.verdict)
    if empty:
        console.say(f"error: no request of {', '.join(empty)} succeeded; specdec bench said why")
    return EXIT_OK if written.verdict.status == "complete" and not empty else EXIT_FAILED


def _resuming(folder: Path) -> str:
    """The line that goes on with a run of ``specdec bench`` that did not complete; else empty."""
    from specdec.runs import command_line
    from specdec.runs.folder import read_manifest

    manifest = read_manifest(folder)
    line = "" if manifest.status == "complete" else command_line.of(manifest)
    return command_line.resuming(line, str(folder)) if line else ""


def _without_a_success(verdict: Verdict) -> list[str]:
    succeeded = {m.variant for m in verdict.measurements if dict(m.outcomes).get("ok")}
    return [variant for variant in (*verdict.baselines, *verdict.speculative) if variant not in succeeded]


def _require_fitting(
    runs: int, renames: tuple[str, ...], requests: Path | None, prices: tuple[str, ...], *, failing: bool
) -> None:
    mistakes: list[Mistake] = []
    if renames and runs != 2:
        mistakes.append(
            Mistake("--rename", " ".join(renames), "needs two runs", "Name both, or leave it out")
        )
    if failing and runs != 2:
        mistakes.append(Mistake("--fail-on-regression", None, "needs two runs", "Name both, or leave it out"))
    if requests is not None and runs != 1:
        mistakes.append(Mistake("--requests", str(requests), "needs exactly one run", "Name one run"))
    if prices and runs != 1:
        problem = "needs exactly one run"
        mistakes.append(Mistake("--usd-per-hour", " ".join(prices), problem, "Name one run"))
    if mistakes:
        raise BadInputError("command line", mistakes)


def _mapping(renames: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in renames]
    wrong = [text for text, (name, _, first) in zip(renames, pairs, strict=True) if not (name and first)]
    if wrong:
        remedy = "Write the name in the second run, =, and the name in the first"
        mistakes = [Mistake("--rename", text, "is not a pair of names", remedy) for text in wrong]
        raise BadInputError("command line", mistakes)
    return {name: first for name, _, first in pairs}


def _write_requests(folder: Path, path: Path) -> None:
    from specdec import atomic
    from specdec.report.table_of_requests import as_csv
    from specdec.runs.folder import read_run

    atomic.write(path, as_csv(read_run(folder)), remedy="Name a file in a folder that exists")


def _two(
    first: Path, second: Path, runs: Path, names: dict[str, str], as_json: bool, *, decidable: bool
) -> tuple[Regression, ...]:
    from specdec.analysis.regression import require_decidable
    from specdec.report import terminal, write_change

    with console.progress(f"comparing {first} and {second}"):
        written = write_change(first, second, runs / "compare", names)
    if as_json:
        console.show_json(written.numbers.read_text(encoding="utf-8"))
    else:
        terminal.show_change(written.change, written.regressions)
    console.say(f"report: {written.html}")
    if decidable:
        require_decidable(written.change)
    return written.regressions
