"""``specdec tune``: which draft and which window."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specdec import console, interrupts
from specdec.commands.options import Number, experiment_option, json_option, runs_option
from specdec.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, BadInputError, Mistake

if TYPE_CHECKING:
    from specdec.analysis.verdict import Verdict
    from specdec.runs.folder import Run


@click.command()
@click.argument("name", metavar="[RUN]", required=False)
@runs_option
@click.option(
    "--sweep", metavar="K,K,...", help="Measure these windows on this machine's engine first, e.g. 3,5,9."
)
@click.option(
    "--test-case",
    "cases",
    multiple=True,
    help="With --sweep: only this test case. May be given several times.",
)
@click.option(
    "--window",
    "windows",
    multiple=True,
    metavar="NAME=K",
    help="Window of a variant that the run does not know; may be given again.",
)
@click.option(
    "--compile-hours",
    type=Number(0, 1e5),
    help="Hours to compile and load one window, for the plan.  [default: 0.75]",
)
@experiment_option
@json_option
def command(
    name: str | None,
    runs: Path,
    sweep: str | None,
    cases: tuple[str, ...],
    windows: tuple[str, ...],
    compile_hours: float | None,
    experiment_path: Path,
    as_json: bool,
) -> int:
    """Which draft and which window to use, from one measured window.

    Takes a stored run (folder, run id or s3://bucket/runs/<run id>; the latest by default), predicts the time
    per token at every window, and recommends one per test case and one for the mix, or to leave speculation
    off. From a run at several loads it recommends one per load, and says above which load to leave it off.
    For a run on the accelerator it also plans the sweep that would confirm it, with node-hours and money.
    docs/window.md explains how.

    \b
    specdec tune
    specdec tune s3://my-bucket/runs/20261129T180000Z-5a17ed
    specdec tune --sweep 3,5,9,12 --test-case repetition --test-case story

    Exit codes: 0 done; 1 the run did not complete or cannot tell; 2 wrong input; 4 this machine cannot sweep
    now; 130 interrupted, what was measured until then is kept.
    """  # noqa: D301 (click reads the backspace itself as: keep these lines)
    from specdec.analysis.cost import usd_at
    from specdec.analysis.judge import judge
    from specdec.runs.find import find
    from specdec.runs.folder import read_run

    if sweep is None and cases:
        raise BadInputError(
            "command line", [Mistake("--test-case", ", ".join(cases), "needs --sweep", "Add --sweep 3,5,9")]
        )
    if sweep is not None and name is not None:
        raise BadInputError(
            "command line",
            [
                Mistake(
                    "RUN", name, "cannot be combined with --sweep, which makes its own run", "Leave one out"
                )
            ],
        )
    folder = find(name, runs=runs) if sweep is None else _swept(experiment_path, _windows(sweep), cases, runs)
    run = _with_windows(read_run(folder), windows)
    verdict = judge(run.manifest, run.records)
    plan = _plan(run, verdict, compile_hours)
    if as_json:
        parts: dict[str, Any] = {
            "run": verdict.run,
            "windows": [dataclasses.asdict(advice) for advice in verdict.windows],
            "usd_per_million": [
                {
                    "draft": mix.draft,
                    "off": usd_at(verdict, mix, None),
                    "recommended": usd_at(verdict, mix, mix.recommended),
                }
                for mix in verdict.windows
                if mix.test_case is None and verdict.prices
            ],
            "drafts": [dataclasses.asdict(row) for row in verdict.drafts],
            "windows_over_load": [
                dataclasses.asdict(row) for row in (verdict.loads.windows if verdict.loads else ())
            ],
            "sweep": [dataclasses.asdict(step) for step in plan],
        }
        console.show_json(parts)
    else:
        from specdec.report import tuning

        for line in tuning.lines(verdict, plan):
            console.show(line)
    if not verdict.windows:
        unknown = [name for name in verdict.speculative if run.manifest.variants[name].get("window") is None]
        reasons = " ".join(verdict.caveats) or "it has no speculative variant whose steps can be read"
        if unknown:
            reasons = f"the window of {', '.join(unknown)} is not known; give it with --window {unknown[0]}=K"
        console.say(f"{folder}: no window advice: {reasons}")
        return EXIT_INTERRUPTED if sweep is not None and verdict.status == "interrupted" else EXIT_FAILED
    return EXIT_OK


def _windows(text: str) -> tuple[int, ...]:
    try:
        windows = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        windows = ()
    if not windows or windows[0] < 1 or windows[-1] > 32:
        raise BadInputError(
            "command line",
            [Mistake("--sweep", text, "is not a list of windows from 1 to 32", "Write --sweep 3,5,9")],
        )
    return windows


def _with_windows(run: Run, texts: tuple[str, ...]) -> Run:
    """The run with the windows that ``--window NAME=K`` gives."""
    from specdec.commands.bench_plan import windows_of

    known = run.manifest.variants
    sizes = windows_of(texts, [name for name, facts in known.items() if facts.get("role") == "speculative"])
    variants = {
        name: {**facts, "window": sizes[name]} if name in sizes else facts for name, facts in known.items()
    }
    return dataclasses.replace(run, manifest=dataclasses.replace(run.manifest, variants=variants))


def _swept(path: Path, windows: tuple[int, ...], cases: tuple[str, ...], runs: Path) -> Path:
    from specdec.experiment.reading import load
    from specdec.folders import cache_folder
    from specdec.rehearsal.engines.llamacpp import LlamaCpp
    from specdec.rehearsal.sweep import sweep

    experiment = load(path)
    if not any(variant.speculative for variant in experiment.variants):
        raise BadInputError(
            str(path),
            [
                Mistake(
                    "variants",
                    None,
                    "include no speculative variant to sweep",
                    "Add one with mode, draft and window",
                )
            ],
        )
    interrupts.end_as_ctrl_c_does()
    with console.progress(f"sweeping windows {', '.join(map(str, windows))}") as step:
        manifest = sweep(
            experiment,
            windows,
            LlamaCpp(cache=cache_folder(os.environ) / "weights"),
            runs,
            test_cases=cases,
            base=path.parent,
            on_progress=step.update,
            on_event=lambda event: step.update(event.message, event.done, event.total),
        )
        step.outcome = manifest.status
    return runs / manifest.run


def _plan(run: Run, verdict: Verdict, compile_hours: float | None) -> tuple[Any, ...]:
    from specdec.analysis.conventions import is_local, strangers
    from specdec.analysis.sweep_plan import COMPILE_HOURS, plan_sweep
    from specdec.metrics.of_run import loaded_seconds

    if is_local(run.manifest) or strangers(run.manifest) or run.manifest.configured is None:
        return ()
    steps: list[Any] = []
    for mix in (advice for advice in verdict.windows if advice.test_case is None):
        busy = loaded_seconds([record for record in run.records if record.variant == mix.variants[0]])
        price = dict(verdict.prices).get(mix.variants[0])
        hours = COMPILE_HOURS if compile_hours is None else compile_hours
        steps.extend(plan_sweep(mix, bench_hours=busy / 3600, compile_hours=hours, price=price))
    return tuple(steps)
