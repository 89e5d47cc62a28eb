"""The pod's course: wait, measure, publish, upload. Whatever fails, what was measured reaches the bucket."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec import __version__, atomic, interrupts
from specdec.benchmark import run as exact
from specdec.benchmark.course import RunEvent, Switch
from specdec.benchmark.plan import Plan, new_run_id
from specdec.benchmark.standing import Standing
from specdec.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, SpecdecError
from specdec.llmperf.results import Case
from specdec.pod import ran
from specdec.pod.api import ClusterApi
from specdec.pod.log import say
from specdec.pod.scaling import Deployments, Turns
from specdec.pod.settings import Settings
from specdec.pod.waiting import not_ready, wait_for_services
from specdec.publish import cloudwatch, datums
from specdec.publish.journal import Journal
from specdec.runs import bucket as run_bucket
from specdec.runs.folder import Run, read_manifest, read_run
from specdec.runs.manifest import MANIFEST, RunManifest
from specdec.runs.progress import Progress
from specdec.runs.record import RECORDS
from specdec.runs.shares import share_folder
from specdec.text import json_of

if TYPE_CHECKING:
    import boto3
    from mypy_boto3_cloudwatch import CloudWatchClient


def measure(
    settings: Settings, *, session: boto3.Session | None = None, api: ClusterApi | None = None
) -> int:
    """Runs the lanes that the experiment names and returns the exit code.

    The exact lane decides, so it goes first: the LLMPerf lane fetches its source from another host, and its
    failure is told in the manifest and takes nothing away. Order of the end: publish, then upload; a failure
    of the first does not keep the second from happening. Where variants are served one after the other, a
    server that does not come up for its phase ends the run as failed, which the alarm hears of.

    Args:
        settings: the pod's orders.
        session: of boto3.
        api: of the cluster; by default the one that the pod runs in.

    Raises:
        SpecdecError: nothing was measured, or the run could not be stored.
    """
    import boto3

    aws = session or boto3.Session()
    metrics = cloudwatch.client(aws, settings.region)
    # No pod can join a run that others have begun.
    earlier = None if settings.share.together else _earlier(settings, aws)
    if earlier is not None and earlier.manifest.status == "complete":
        say(f"run {earlier.manifest.run} is complete already; nothing is measured")
        return EXIT_OK
    # A pod that takes the place of one that was ended has its run id, which is taken.
    again = earlier is not None and earlier.manifest.run == settings.run
    run = new_run_id() if again else settings.run or new_run_id()
    folder = settings.work / "runs" / run
    folder.mkdir(parents=True)
    say(f"run {run} of {settings.experiment.name}")
    interrupted = False
    try:
        turns = turns_of(settings, api) if settings.deployments else None
        if turns is None:
            wait_for_services(settings.services, seconds=settings.wait_seconds)
        else:
            # However long it takes: there may be no nodes yet.
            interrupts.run(turns.serve(settings.experiment.baseline.name, patiently=True))
            # Phases belong together, so that an earlier pod's are measured again.
            earlier = None
        if settings.share.index:
            return _measure_share(settings, run, folder, aws)
        switch = _switch(settings, turns, aws) if turns else None
        _measure_lanes(settings, run, folder, _what_ran(settings, aws), earlier, switch)
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted; what was measured is kept")
    except SpecdecError as error:
        say(f"error: {error}")
        if not (folder / MANIFEST).exists():
            _report_failure(metrics, settings, run, folder)
            run_bucket.upload(folder, run_bucket.client(aws, settings.region), settings.bucket, run=run)
            raise
    return _deliver(settings, run, folder, metrics, aws, interrupted=interrupted)


def _earlier(settings: Settings, aws: boto3.Session) -> Run | None:
    """The run that this one goes on with: what an earlier pod of the same Job left, else the one that was
    named.

    Raises:
        SpecdecError: a named run is not in the bucket.
    """
    s3 = run_bucket.client(aws, settings.region)
    left = settings.run is not None and run_bucket.has_ended(settings.run, s3, settings.bucket)
    name = settings.run if left else settings.resume
    if name is None:
        return None
    run = read_run(run_bucket.download(name, s3, settings.bucket, settings.work / "earlier"))
    say(f"goes on with run {name}: {run.manifest.outcome}")
    return run


def _measure_share(settings: Settings, run: str, folder: Path, aws: boto3.Session) -> int:
    """Measures as one of several pods. Pod 0 gets the records and publishes; a copy goes to the bucket, in
    case that pod is lost.
    """
    share = settings.share
    say(f"client {share.index} of {share.of}")
    manifest = exact.run(_plan(settings, run), folder, on_event=_say_event)
    own = share_folder(folder.parent / manifest.run, share.index)
    say(f"share {share.index}: {manifest.outcome}, {manifest.counts}")
    place = f"{manifest.run}/{own.name}"
    run_bucket.upload(own, run_bucket.client(aws, settings.region), settings.bucket, run=place)
    return EXIT_OK if manifest.status == "complete" else EXIT_FAILED


def turns_of(settings: Settings, api: ClusterApi | None = None) -> Turns:
    """How one variant after the other gets served.

    Raises:
        EnvironmentFault: the pod may not ask the cluster's API.
    """
    return Turns(
        there=Deployments(api or ClusterApi.of(os.environ)),
        deployments=settings.deployments,
        services=settings.services,
        ready=not_ready,
        seconds=settings.wait_seconds,
        leave_seconds=settings.leave_seconds,
        say=say,
        poll=settings.poll_seconds,
    )


def _what_ran(settings: Settings, aws: boto3.Session) -> dict[str, Any]:
    """What the cluster has, and what services that all run at once run on; told in the log too: it is worth
    reading before hours of measuring.
    """
    read = ran.ran(
        {} if settings.deployments else settings.services,
        cluster=settings.cluster,
        eks=ran.client(aws, settings.region),
        api=lambda: ClusterApi.of(os.environ).call,
    )
    say(f"running on {json_of(read)}")
    return read


def _switch(settings: Settings, turns: Turns, aws: boto3.Session) -> Switch:
    """Serves a variant for its phase, and looks what its server runs on: each phase has a server of its own,
    which may be on another node than the last.
    """
    api = turns.there.api

    async def switch(variant: str) -> dict[str, Any]:
        await turns.serve(variant)
        seen = await asyncio.to_thread(
            ran.server,
            settings.deployments[variant],
            api.namespace,
            cluster=settings.cluster,
            eks=ran.client(aws, settings.region),
            api=lambda: api.call,
        )
        say(f"{variant} runs on {json_of(seen)}")
        return seen

    return switch


def _say_event(event: RunEvent) -> None:
    say(f"{event.message} {event.done}/{event.total}")


def _plan(settings: Settings, run: str, read: dict[str, Any] | None = None) -> Plan:
    environment: dict[str, Any] = {
        "stack": settings.stack,
        "region": settings.region,
        "place": "benchmark pod",
        **({"ran": read} if read else {}),
    }
    plan = Plan.from_experiment(
        settings.experiment, settings.services, run=run, base=settings.work, environment=environment
    )
    return dataclasses.replace(plan, share=settings.share)


def _measure_lanes(
    settings: Settings,
    run: str,
    folder: Path,
    read: dict[str, Any],
    earlier: Run | None = None,
    switch: Switch | None = None,
) -> None:
    experiment = settings.experiment
    plan = _plan(settings, run, read)
    if "exact" not in experiment.benchmark.lanes:
        _only_llmperf(plan, folder, _llmperf(settings, folder))
        return
    standing = Standing(experiment.baseline.name)

    def show(event: RunEvent) -> None:
        standing.add(event.record)
        say(str(Progress(run, f"{event.done}/{event.total}, {event.message}{standing}")))

    manifest = exact.run(plan, folder, interrupted=earlier, on_event=show, switch=switch)
    say(f"exact lane: {manifest.status}, {manifest.counts}")
    if manifest.status == "complete":
        _check_texts(plan, folder)
    if "llmperf" in experiment.benchmark.lanes and manifest.status != "interrupted":
        outcome = "interrupted"
        try:
            problems = [problem for case in _llmperf(settings, folder) for problem in case.problems]
            outcome = f"{len(problems)} problems, see its results" if problems else "complete"
        except SpecdecError as error:
            outcome = f"failed: {error}"
            say(f"error: LLMPerf: {error}; the exact lane stands")
        finally:
            manifest = dataclasses.replace(manifest, environment={**manifest.environment, "llmperf": outcome})
            atomic.write(folder / MANIFEST, manifest.to_json())


def _check_texts(plan: Plan, folder: Path) -> None:
    """Whether the texts can be believed; what stops this takes nothing from the run."""
    from specdec.benchmark import after

    try:
        checked = after.check_texts(
            read_run(folder), plan, lambda what, done, total: say(f"{what} {done}/{total}")
        )
    except SpecdecError as error:
        say(f"error: the texts are not checked: {error}; the run stands")
        return
    say(checked.says or "no texts to check")


def _llmperf(settings: Settings, folder: Path) -> list[Case]:
    from specdec.llmperf import lane
    from specdec.pod import sources

    if settings.llmperf_python is None:
        raise SpecdecError(
            "the llmperf lane is asked for and LLMPERF_PYTHON is not set",
            remedy="Start the pod by charts/pod/start.sh",
        )
    benchmark = settings.experiment.benchmark
    scratch = settings.work / "llmperf"
    installation = lane.Installation(
        settings.llmperf_python, sources.llmperf(scratch / "source"), sources.tokenizer(scratch / "tokenizer")
    )
    arguments = lane.arguments_for(
        settings.experiment.serving.target,
        output_tokens=benchmark.output_tokens,
        concurrency=benchmark.concurrency,
        temperature=benchmark.temperature,
        thinking=benchmark.thinking,
    )
    cases = lane.run_lane(
        installation,
        arguments,
        settings.services,
        folder,
        on_event=lambda message, done, total: say(f"{message} {done}/{total}"),
    )
    for case in cases:
        for problem in case.problems:
            say(f"LLMPerf, {case.variant}, {case.test_case}: {problem}")
    return cases


def _only_llmperf(plan: Plan, folder: Path, cases: list[Case]) -> None:
    """Records and manifest of a run without the exact lane: no records, and complete if every call gave
    results.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    (folder / RECORDS).write_bytes(b"")
    empty = [f"{case.variant}, {case.test_case}" for case in cases if not case.requests]
    manifest = RunManifest(
        run=plan.run,
        status="failed" if empty else "complete",
        experiment=plan.experiment,
        configuration=plan.configuration,
        configuration_hash=plan.configuration_hash,
        started_utc=now,
        ended_utc=now,
        environment={"specdec": __version__, **plan.environment},
        variants={target.variant: target.measured() for target in plan.targets},
        counts={},
        server_counters={},
        records_sha256=hashlib.sha256(b"").hexdigest(),
        problem=f"LLMPerf gave no results for {'; '.join(empty)}" if empty else None,
    )
    atomic.write(folder / MANIFEST, manifest.to_json())


def _deliver(
    settings: Settings,
    run: str,
    folder: Path,
    metrics: CloudWatchClient,
    aws: boto3.Session,
    *,
    interrupted: bool,
) -> int:
    finished = (folder / MANIFEST).exists()
    interrupted = interrupted or (finished and read_manifest(folder).status == "interrupted")
    s3 = run_bucket.client(aws, settings.region)
    if interrupted:
        # A pod that is ended has half a minute left.
        run_bucket.upload(folder, s3, settings.bucket, run=run)
    published = True
    try:
        if finished:
            sent = cloudwatch.publish(folder, metrics, experiment=settings.experiment.name)
            say(f"published {sent} datums")
        else:
            _report_failure(metrics, settings, run, folder)
    except SpecdecError as error:
        published = False
        say(f"error: not published: {error}" + (f". {error.remedy}" if error.remedy else ""))
    files = run_bucket.upload(folder, s3, settings.bucket, run=run)
    say(f"{files} files in s3://{settings.bucket}/{run_bucket.PREFIX}{run}/")
    if interrupted:
        return EXIT_INTERRUPTED
    if not finished:
        return EXIT_FAILED
    status = read_manifest(folder).status
    return EXIT_OK if published and status == "complete" else EXIT_FAILED


def _report_failure(metrics: CloudWatchClient, settings: Settings, run: str, folder: Path) -> None:
    """Lets the alarm know of a run that ends without a manifest."""
    failure = datums.failed_run(settings.experiment.name, datetime.now(UTC))
    try:
        cloudwatch.send([failure], metrics, run=run, journal=Journal(folder))
    except SpecdecError as error:
        say(f"error: the failure was not published: {error}")
