"""Run folders in the bucket, under ``runs/<run id>/``. The manifest is uploaded last, so a folder with one is
complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec import atomic
from specdec.aws import code, doing
from specdec.errors import BadInputError, Mistake, SpecdecError
from specdec.runs.folder import read_manifest, require_untouched
from specdec.runs.manifest import MANIFEST, RunManifest

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PREFIX = "runs/"

_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".html": "text/html",
    ".md": "text/markdown",
    ".txt": "text/plain",
}


def client(session: Any, region: str) -> S3Client:
    """An S3 client that retries: every call here can be repeated.

    Args:
        session: a boto3 session.
        region: AWS region.
    """
    from botocore.config import Config

    return session.client(
        "s3", region_name=region, config=Config(retries={"total_max_attempts": 6, "mode": "standard"})
    )


def upload(folder: Path, s3: S3Client, bucket: str, *, run: str | None = None) -> int:
    """Copies a run folder to the bucket and returns the number of files. Files of the same name are replaced.

    Args:
        folder: run folder; without a manifest, what is there is copied and stays an unfinished run.
        s3: client.
        bucket: name.
        run: run id; by default the manifest's.

    Raises:
        BadInputError: the manifest cannot be read, and no run id is given.
        SpecdecError: the bucket is not there.
        NoAccessError: no credentials, or no permission to write.
        EnvironmentFault: S3 cannot be reached.
    """
    manifest = folder / MANIFEST
    if run is None:
        run = read_manifest(folder).run
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and path != manifest and not path.name.endswith(atomic.SCRATCH)
    )
    if manifest.exists():
        files.append(manifest)
    for path in files:
        key = f"{PREFIX}{run}/{path.relative_to(folder).as_posix()}"
        with doing(f"write s3://{bucket}/{key}"):
            s3.upload_file(
                str(path),
                bucket,
                key,
                ExtraArgs={"ContentType": _TYPES.get(path.suffix, "application/octet-stream")},
            )
    return len(files)


def download(run: str, s3: S3Client, bucket: str, folder: Path) -> Path:
    """Copies a run from the bucket into ``folder/<run>`` and checks its records against the manifest; returns
    that folder.

    Raises:
        BadInputError: no such bucket, or its records are not those the manifest was written for.
        SpecdecError: no such run, or unfinished.
        NoAccessError: no credentials, or no permission to read.
        EnvironmentFault: S3 cannot be reached.
    """
    names = _files(run, s3, bucket)
    if MANIFEST not in names:
        what = "is not finished: it has no manifest" if names else "is not there"
        raise SpecdecError(
            f"s3://{bucket}/{PREFIX}{run}/ {what}", remedy="List the runs of the bucket: specdec runs"
        )
    target = folder / run
    for name in [name for name in names if name != MANIFEST] + [MANIFEST]:
        path = target / name
        if not path.resolve().is_relative_to(target.resolve()):
            raise SpecdecError(f"s3://{bucket}/{PREFIX}{run}/{name} would be written outside {target}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with doing(f"read s3://{bucket}/{PREFIX}{run}/{name}"):
            s3.download_file(bucket, f"{PREFIX}{run}/{name}", str(path))
    require_untouched(target, read_manifest(target))
    return target


@dataclass(frozen=True, slots=True, order=True)
class Ended:
    """A finished run in a bucket.

    Attributes:
        run: run id; ids sort by the time a run was started.
        at: when its manifest was stored, ISO 8601.
    """

    run: str
    at: str


def began(run: str) -> datetime:
    """When a run was started, by its id; the beginning of time for an id of another form."""
    try:
        return datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def ended(s3: S3Client, bucket: str) -> list[Ended]:
    """The finished runs in the bucket, the newest first.

    Raises:
        BadInputError: no such bucket.
        NoAccessError: no credentials, or no permission to list.
        EnvironmentFault: S3 cannot be reached.
    """
    places = ((key.removeprefix(PREFIX).partition("/"), at) for key, at in _keys(s3, bucket, PREFIX))
    return sorted((Ended(run, at) for (run, _, name), at in places if name == MANIFEST), reverse=True)


def has_ended(run: str, s3: S3Client, bucket: str) -> bool:
    """Whether the bucket holds a manifest of this run.

    Raises:
        BadInputError: no such bucket.
        NoAccessError: no credentials, or no permission to list.
        EnvironmentFault: S3 cannot be reached.
    """
    return MANIFEST in _files(run, s3, bucket)


def outcome(run: str, s3: S3Client, bucket: str) -> str:
    """How a finished run ended, by its manifest; see ``RunManifest.outcome``.

    Raises:
        SpecdecError: its manifest is not there.
        NoAccessError: no credentials, or no permission to read.
        EnvironmentFault: S3 cannot be reached.
    """
    try:
        return manifest_of(run, s3, bucket).outcome
    except ValueError as error:
        return f"its manifest cannot be read: {error}"


def manifest_of(run: str, s3: S3Client, bucket: str) -> RunManifest:
    """The manifest of a run that has ended.

    Raises:
        SpecdecError: its manifest is not there.
        NoAccessError: no credentials, or no permission to read.
        EnvironmentFault: S3 cannot be reached.
        ValueError: it is no manifest of this version.
    """
    key = f"{PREFIX}{run}/{MANIFEST}"
    with doing(f"read s3://{bucket}/{key}"):
        text = s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode(errors="replace")
    return RunManifest.from_json(text)


def _files(run: str, s3: S3Client, bucket: str) -> list[str]:
    prefix = f"{PREFIX}{run}/"
    return [key.removeprefix(prefix) for key, _ in _keys(s3, bucket, prefix)]


def _keys(s3: S3Client, bucket: str, prefix: str) -> list[tuple[str, str]]:
    """Keys with the time they were written, ISO 8601."""
    from botocore.exceptions import ClientError, ParamValidationError

    with doing(f"list s3://{bucket}/{prefix}"):
        try:
            pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            return [
                (item.get("Key", ""), item["LastModified"].isoformat() if "LastModified" in item else "")
                for page in pages
                for item in page.get("Contents", [])
            ]
        except ClientError as error:
            if code(error) not in ("NoSuchBucket", "InvalidBucketName"):
                raise
        except ParamValidationError:
            pass
        raise BadInputError(
            "s3",
            [Mistake("bucket", bucket, "does not exist", "Correct the name, or look into another account")],
        )
