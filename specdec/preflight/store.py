"""What the model store holds for this configuration: weights and compiled artifacts that need not be made
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from specdec.aws import calls, code
from specdec.preflight.finding import Clients, Finding, Scope
from specdec.preflight.leftovers import stack_status
from specdec.serving.artifact import artifact_path
from specdec.serving.layout import artifact_marker, model_marker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdec.experiment import Experiment

BUCKET_OUTPUT = "Bucket"
"""Name of the stack output that holds the bucket's name."""


def bucket_of(experiment: Experiment, region: str, clients: Clients) -> str | None:
    """The bucket of a deployed stack, or the one the experiment brings, or None where there is neither
    yet.
    """
    name = experiment.stack_name(region)
    if stack_status(clients, name) is not None:
        with calls():
            outputs = (
                clients("cloudformation").describe_stacks(StackName=name)["Stacks"][0].get("Outputs", [])
            )
        for output in outputs:
            if output["OutputKey"] == BUCKET_OUTPUT:
                return str(output["OutputValue"])
    return experiment.placement[region].bucket


def markers(experiment: Experiment) -> dict[str, str]:
    """What the experiment needs in its bucket, in words, to the key whose presence says that it is whole."""
    names = dict.fromkeys(
        [experiment.serving.target, *(variant.draft for variant in experiment.variants if variant.draft)]
    )
    needed = {f"weights of {name}": model_marker(name, experiment.model(name).revision) for name in names}
    needed |= {
        f"artifact of {variant.name}": artifact_marker(artifact_path(experiment, variant))
        for variant in experiment.variants
    }
    return needed


def present(clients: Clients, bucket: str, key: str) -> bool:
    """Whether an object exists.

    Raises:
        NoAccessError: the caller may not ask; an absent object looks the same to who may not list the bucket.
    """
    with calls():
        try:
            clients("s3").head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if code(error) in ("404", "NoSuchKey", "NotFound"):
                return False
            raise
    return True


def store(scope: Scope) -> Iterator[Finding]:
    """Staged weights and compiled artifacts save hours on a node that is paid by the hour."""
    bucket = bucket_of(scope.experiment, scope.region, scope.clients)
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
    yield judge_store(
        {what: present(scope.clients, bucket, key) for what, key in needed.items()}, bucket=bucket
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
