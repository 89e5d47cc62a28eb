"""A deployed stack: its status and its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from specdec.aws import calls, code

if TYPE_CHECKING:
    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment

BUCKET_OUTPUT = "Bucket"
"""Name of the stack output that holds the bucket's name."""


def stack_status(clients: Clients, name: str) -> str | None:
    """Status of a stack, or None where there is none.

    Raises:
        NoAccessError: the caller may not ask.
    """
    with calls():
        try:
            return str(clients("cloudformation").describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])
        except ClientError as error:
            # CloudFormation answers a question about an absent stack with a validation error.
            if code(error) == "ValidationError" and "does not exist" in str(error):
                return None
            raise


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
