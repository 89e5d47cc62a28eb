"""What the model store holds for this configuration: weights and compiled artifacts that need not be made
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from specdec.aws import calls, code
from specdec.deployed.markers import markers, present
from specdec.deployed.stack import bucket_for
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator


def store(scope: Scope) -> Iterator[Finding]:
    """Staged weights and compiled artifacts save hours on a node that is paid by the hour."""
    bucket = bucket_for(scope.experiment, scope.region, scope.clients)
    needed = markers(scope.experiment)
    if bucket is None:
        yield judge_store(dict.fromkeys(needed, False), bucket=None)
        return
    with calls():
        try:
            scope.clients("s3").head_bucket(Bucket=bucket)
        except ClientError as error:
            if code(error) not in ("404", "NoSuchBucket"):
                raise
            yield Finding(
                "store",
                "blocker",
                f"bucket {bucket} does not exist",
                f"Correct placement.{scope.region}.bucket, or remove it",
            )
            return
    if bucket == scope.experiment.placement[scope.region].bucket:
        yield from _shared(scope, bucket)
    yield judge_store(
        {what: present(scope.clients, bucket, key) for what, key in needed.items()}, bucket=bucket
    )


def _shared(scope: Scope, bucket: str) -> Iterator[Finding]:
    with calls():
        try:
            tags: list[dict[str, str]] = scope.clients("s3").get_bucket_tagging(Bucket=bucket)["TagSet"]
        except ClientError as error:
            if code(error) != "NoSuchTagSet":
                raise
            tags = []
    finding = judge_shared({tag["Key"]: tag["Value"] for tag in tags}, bucket=bucket, stack=scope.stack)
    if finding is not None:
        yield finding


def judge_shared(tags: dict[str, str], *, bucket: str, stack: str) -> Finding | None:
    """Whether another stack would empty a bucket that this one uses, by the tags CloudFormation and the CDK
    set.
    """
    owner = tags.get("aws:cloudformation:stack-name")
    if owner in (None, stack) or tags.get("aws-cdk:auto-delete-objects") != "true":
        return None
    return Finding(
        "store",
        "blocker",
        f"bucket {bucket} belongs to stack {owner}, which empties it when it is destroyed",
        f'Deploy {owner} with store.on_destroy = "retain" first, or use a bucket of your own',
    )


def judge_store(found: dict[str, bool], *, bucket: str | None) -> Finding:
    """Reads what is there and what is not, by its name in words."""
    missing = [what for what, there in found.items() if not there]
    where = f"in {bucket}" if bucket else "yet: the bucket comes with the stack"
    if not missing:
        return Finding(
            "store", "ok", f"weights and artifacts are complete {where}: nothing to stage, nothing to compile"
        )
    return Finding(
        "store",
        "ok",
        (
            f"not {where}: {', '.join(missing)}; they are made on the first start, on paid nodes"
            if bucket
            else f"nothing staged {where}; weights are fetched and graphs compiled on the first start"
        ),
    )
