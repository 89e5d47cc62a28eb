"""``specdec wait``: blocks until the run is done, or has failed."""

from __future__ import annotations

import time
from pathlib import Path

import click

from specdec import console
from specdec.commands.nodes import opened, steps_of
from specdec.commands.options import experiment_option, region_option
from specdec.errors import EXIT_FAILED, EXIT_OK


@click.command()
@experiment_option
@region_option
@click.option("--timeout-minutes", type=click.FloatRange(min=0), default=360.0, show_default=True, help="Give up after this long.")
@click.option("--every-seconds", type=click.FloatRange(min=0.05), default=20.0, show_default=True, help="Time between two looks.")
@click.option("--after", metavar="RUN", help="Wait for a run newer than this one.  [default: the newest now, if any]")
def command(experiment_path: Path, region: str | None, timeout_minutes: float, every_seconds: float, after: str | None) -> int:
    """Wait until a new run is in the bucket, and say what changes on the way.

    Exit codes: 0 a new run has ended; 1 something failed, or the time is up.
    """
    from specdec.operate.nodes import runs
    from specdec.preflight.store import bucket_of

    experiment, name, clients = opened(experiment_path, region)
    bucket = bucket_of(experiment, name, clients)
    known = runs(clients, bucket) if bucket else []
    newest = after if after is not None else (known[0][0] if known else "")
    told: dict[str, str] = {}
    unasked_before: str | None = None
    deadline = time.monotonic() + timeout_minutes * 60
    while True:
        steps, unasked = steps_of(experiment, name, clients)
        if unasked and unasked != unasked_before:
            console.say(f"services and jobs not known: {unasked}")
            unasked_before = unasked
        for step in steps:
            line = f"{step.state}: {step.detail}"
            if told.get(step.name) != line:
                told[step.name] = line
                console.say(f"{step.name}: {line}")
        bucket = bucket or bucket_of(experiment, name, clients)
        ended = [run for run, _ in (runs(clients, bucket) if bucket else []) if run > newest]
        if ended:
            click.echo(ended[0])
            return EXIT_OK
        failed = [step for step in steps if step.state == "failed"]
        if failed:
            console.say("failed: " + "; ".join(f"{step.name}: {step.detail}" for step in failed))
            return EXIT_FAILED
        if time.monotonic() >= deadline:
            console.say(f"no new run after {timeout_minutes:g} minutes")
            return EXIT_FAILED
        time.sleep(every_seconds)
