"""``specdec wait``: blocks until the run is done, or has failed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specdec import console
from specdec.commands.nodes import opened, steps_of
from specdec.commands.options import Number, experiment_option, region_option
from specdec.errors import EXIT_FAILED, EXIT_OK, SpecdecError

if TYPE_CHECKING:
    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment
    from specdec.operate.nodes import Step
    from specdec.runs.progress import Progress


@click.command()
@experiment_option
@region_option
@click.option(
    "--timeout-minutes",
    type=Number(0, 1e6),
    help="Give up after this long.  [default: the longest first start that may succeed, and an hour]",
)
@click.option(
    "--every-seconds",
    type=Number(0.05, 86400),
    default=20.0,
    show_default=True,
    help="Time between two looks.",
)
@click.option("--run", "wanted", metavar="ID", help="Wait for this run, as `specdec run` printed it.")
@click.option(
    "--after", metavar="RUN", help="Wait for a run newer than this one.  [default: the newest now, if any]"
)
def command(
    experiment_path: Path,
    region: str | None,
    timeout_minutes: float | None,
    every_seconds: float,
    wanted: str | None,
    after: str | None,
) -> int:
    """Wait until a new run is in the bucket, and say what changes on the way.

    Once a minute it shows the progress of the run: requests done, and running medians per variant, from the
    benchmark's log in the cluster or in CloudWatch. Nothing is decided from them.

    If the benchmark that was deployed last has already ended, the newest run is taken. One that you started
    with `specdec run` is waited for with --run.

    Needs no kubectl, but sees less without it or without a way to the cluster's API: a service or job that
    failed there. The wait then ends with the run in the bucket, a complaint of EKS about the nodes, an alarm,
    or the time. No alarm comes before the longest start that may still succeed; one of pending pods counts
    only where the weights were there when the wait began.

    Exit codes: 0 the run is complete; 1 it is not, something failed, or the time is up; 3 no
    access to AWS.
    """
    from specdec.deployed.stack import bucket_for
    from specdec.runs.bucket import ended
    from specdec.serving.limits import run_seconds

    experiment, name, clients = opened(experiment_path, region)
    bucket = bucket_for(experiment, name, clients)
    known = ended(clients("s3"), bucket) if bucket else []
    newest = after if after is not None else (known[0].run if known else "")
    lines: dict[str, str] = {}
    following = Following(experiment, name, clients)
    unasked_before: str | None = None
    began = datetime.now(UTC).isoformat()
    minutes = timeout_minutes if timeout_minutes is not None else run_seconds(experiment) / 60
    deadline = time.monotonic() + minutes * 60
    staged: bool | None = None
    asked = False
    while True:
        steps, unasked = steps_of(experiment, name, clients)
        staged = weights_there(steps) if staged is None else staged
        asked = asked or unasked is None
        if unasked and unasked != unasked_before:
            console.say(f"services and jobs not known, so a failure there does not end the wait: {unasked}")
            unasked_before = unasked
        for step in steps:
            line = f"{step.state}: {step.detail}"
            if lines.get(step.name) != line:
                lines[step.name] = line
                console.say(f"{step.name}: {line}")
        following.show(steps, asked=unasked is None)
        bucket = bucket or bucket_for(experiment, name, clients)
        finished = [run.run for run in ended(clients("s3"), bucket)] if bucket else []
        new = [run for run in finished if (run == wanted if wanted else run > newest)]
        if not new and after is None and wanted is None and finished and over(steps, asked=asked):
            console.say("the benchmark that was deployed last has ended; another: specdec run")
            new = finished
        if new and bucket:
            return _end(clients, bucket, new[0])
        failed = [step for step in steps if matters(step, began, staged=staged)]
        if failed:
            console.say("failed: " + "; ".join(f"{step.name}: {step.detail}" for step in failed))
            return EXIT_FAILED
        if time.monotonic() >= deadline:
            console.say(f"no new run after {minutes:g} minutes")
            return EXIT_FAILED
        time.sleep(every_seconds)


class Following:
    """Shows how the run stands, at most once in ``EVERY_SECONDS``, and why that is not known at most once."""

    EVERY_SECONDS = 60.0

    def __init__(self, experiment: Experiment, region: str, clients: Clients) -> None:
        self._experiment = experiment
        self._region = region
        self._clients = clients
        self._next = 0.0
        self._last: object = None
        self._refused = False

    def show(self, steps: list[Step], *, asked: bool) -> None:
        """Says what is new.

        Args:
            steps: how far everything is.
            asked: whether the cluster's API could be asked; else CloudWatch is.
        """
        if self._refused or time.monotonic() < self._next or (asked and not measuring(steps)):
            return
        try:
            progress = self._asked(cluster=asked)
        except SpecdecError as error:
            self._refused = True
            console.say(f"running medians are not shown: {error}")
            return
        if progress is not None and progress != self._last:
            self._last = progress
            self._next = time.monotonic() + self.EVERY_SECONDS
            console.say(f"run {progress.run}: {progress.words}")

    def _asked(self, *, cluster: bool) -> Progress | None:
        from specdec.operate import kubernetes, progress

        if cluster:
            return progress.from_cluster(kubernetes.Kubectl(self._experiment, self._region, self._clients))
        return progress.from_cloudwatch(self._experiment.stack_name(self._region), self._clients)


def measuring(steps: list[Step]) -> bool:
    """Whether a benchmark job runs now."""
    return any(step.name.startswith("job llmperf-") and step.detail == "running" for step in steps)


def over(steps: list[Step], *, asked: bool = True) -> bool:
    """Whether no benchmark is still to end: the cluster has jobs of it, and all are done; or, where its API
    never could be asked, a run has ended since the benchmark was last deployed.
    """
    if not asked:
        return any(step.name == "benchmark" and step.state != "waiting" for step in steps)
    jobs = [step for step in steps if step.name.startswith("job llmperf-")]
    return bool(jobs) and all(step.state == "done" for step in jobs)


def weights_there(steps: list[Step]) -> bool:
    """Whether every model is whole in the bucket."""
    weights = [step for step in steps if step.name.startswith("weights")]
    return bool(weights) and all(step.state == "done" for step in weights)


def matters(step: Step, began: str, *, staged: bool = True) -> bool:
    """Whether a failure ends the wait: not that of an earlier run, nor an alarm it left behind.

    Args:
        step: how far one thing is.
        began: when the wait began, ISO 8601.
        staged: whether the weights were there then; pods that wait for them are pending, as they should be.
    """
    if step.state != "failed" or step.name == "benchmark":
        return False
    if not staged and step.name.startswith("alarm AlarmsPodsPending"):
        return False
    return not step.name.startswith("alarm ") or (step.since or "") >= began


def _end(clients: Clients, bucket: str, run: str) -> int:
    from specdec.runs.bucket import outcome

    said = outcome(run, clients("s3"), bucket)
    console.show(run)
    if said == "complete":
        return EXIT_OK
    console.say(f"run {run}: {said}")
    return EXIT_FAILED
