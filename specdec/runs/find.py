"""Finds the run that a command line names: a folder, a run id, an s3:// address, or the latest of a bucket or
of ``runs``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specdec.errors import BadInputError, Mistake
from specdec.runs.folder import latest

SCHEME = "s3://"


def find(name: str | None, *, runs: Path, stack: str | None = None, region: str | None = None) -> Path:
    """The folder of a run, fetched first where it lies in a bucket.

    Args:
        name: folder, run id, ``s3://bucket/runs/<run id>``, or ``s3://bucket`` for its latest run; None for
            the latest.
        runs: folder of local runs; fetched ones go there too.
        stack: deployed stack whose bucket holds the run.
        region: of the stack; else the one its name ends with, else the session's.

    Raises:
        BadInputError: no such run or stack, or a name that is none of the above.
        NoAccessError: AWS does not let this caller read it.
        EnvironmentFault: AWS cannot be reached, or the run cannot be stored here.
    """
    if name is not None and name.startswith(SCHEME):
        bucket, _, key = name.removeprefix(SCHEME).partition("/")
        run = key.strip("/").removeprefix("runs").strip("/")
        if not bucket or "/" in run:
            raise _wrong(
                "run",
                name,
                "is not the address of a run",
                "Use s3://<bucket>/runs/<run id>, or s3://<bucket> for the latest",
            )
        return _fetch(bucket, run or None, runs, _session(), region)
    if stack is not None:
        session = _session()
        region = region or _region_of(stack, session)
        return _fetch(_bucket(stack, session, region), name, runs, session, region)
    if name is None:
        return latest(runs)
    for folder in (Path(name), runs / name):
        if folder.is_dir():
            return folder
    raise _wrong(
        "run",
        name,
        f"is neither a folder nor a run below {runs}",
        "Name a run folder, a run id, or s3://<bucket>/runs/<run id>",
    )


def _bucket(stack: str, session: Any, region: str | None) -> str:
    from botocore.exceptions import ClientError

    from specdec import aws
    from specdec.deployed.stack import bucket_of

    client = session.client("cloudformation", region_name=region, config=aws.config())
    try:
        bucket = bucket_of(stack, client)
    except ClientError as error:
        if aws.code(error) != "ValidationError":
            raise
        where = f"region {region}" if region else "the default region"
        raise _wrong(
            "--stack", stack, f"is not deployed in {where}", "Name a deployed stack: <experiment>-<region>"
        ) from None
    if bucket is None:
        remedy = "Name the run by its address: s3://<bucket>/runs/<run id>"
        raise _wrong("--stack", stack, "has no bucket of its own", remedy)
    return bucket


def _fetch(bucket: str, run: str | None, runs: Path, session: Any, region: str | None) -> Path:
    from specdec import atomic, aws, console
    from specdec.runs import bucket as run_bucket

    s3 = session.client("s3", region_name=region, config=aws.config())
    if run is None:
        finished = run_bucket.ended(s3, bucket)
        if not finished:
            raise _wrong(
                "run",
                f"{SCHEME}{bucket}",
                "holds no finished run",
                "Start one with `specdec run`, and wait until it ends",
            )
        run = finished[0].run
    with console.progress(f"fetching {SCHEME}{bucket}/{run_bucket.PREFIX}{run}"):
        try:
            runs.mkdir(parents=True, exist_ok=True)
            return run_bucket.download(run, s3, bucket, runs)
        except OSError as error:
            raise atomic.unwritable(
                Path(error.filename or runs), error, remedy="Name another folder with --runs"
            ) from None


def _session() -> Any:
    from specdec import aws

    return aws.session()


def _region_of(stack: str, session: Any) -> str | None:
    return next(
        (
            region
            for region in session.get_available_regions("cloudformation")
            if stack.endswith(f"-{region}")
        ),
        None,
    )


def _wrong(field: str, value: str, problem: str, remedy: str) -> BadInputError:
    return BadInputError("command line", [Mistake(field, value, problem, remedy)])
