"""What a stack's bucket must hold before a server starts: whole weights and artifacts, by their markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from specdec.aws import calls, code
from specdec.serving.artifact import artifact_path
from specdec.serving.layout import artifact_marker, model_marker

if TYPE_CHECKING:
    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment


def markers(experiment: Experiment) -> dict[str, str]:
    """What the experiment needs in its bucket, in words, to the key whose presence says that it is whole."""
    needed = {
        f"weights of {name}": model_marker(name, experiment.model(name).revision)
        for name in experiment.loaded_models
    }
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
