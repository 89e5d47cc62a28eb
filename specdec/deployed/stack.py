"""A deployed stack: its status and its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import calls, code, pages

if TYPE_CHECKING:
    from datetime import datetime

    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment

BUCKET_OUTPUT = "Bucket"
"""Name of the stack output that holds the bucket's name."""

BENCHMARK_RESOURCE = "Workloadsllmperf"
"""Start of the logical ids of the manifests with the benchmark's Job; a test holds it equal to the
template's."""


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


def bucket_of(stack: str, cloudformation: Any) -> str | None:
    """The bucket of a deployed stack: its output, or, while outputs are not there yet, the only bucket it
    made; None where it has neither.

    Args:
        stack: its name.
        cloudformation: boto3 client of the stack's region.

    Raises:
        ClientError: there is no such stack.
        NoAccessError: the caller may not ask.
    """
    with calls():
        outputs = cloudformation.describe_stacks(StackName=stack)["Stacks"][0].get("Outputs", [])
        for output in outputs:
            if output["OutputKey"] == BUCKET_OUTPUT:
                return str(output["OutputValue"])
        resources = pages(cloudformation, "list_stack_resources", "StackResourceSummaries", StackName=stack)
    made = [item for item in resources if item["ResourceType"] == "AWS::S3::Bucket"]
    return str(made[0]["PhysicalResourceId"]) if len(made) == 1 else None


def benchmark_applied(stack: str, clients: Clients) -> datetime | None:
    """When the deployment last applied the benchmark's Job, or None where it never did. A Job runs once, so a
    run that began after this is its run or one that was started later.

    Raises:
        NoAccessError: the caller may not ask.
    """
    with calls():
        try:
            resources = pages(
                clients("cloudformation"), "list_stack_resources", "StackResourceSummaries", StackName=stack
            )
        except ClientError as error:
            if code(error) == "ValidationError" and "does not exist" in str(error):
                return None
            raise
    return max(
        (
            item["LastUpdatedTimestamp"]
            for item in resources
            if item["LogicalResourceId"].startswith(BENCHMARK_RESOURCE)
        ),
        default=None,
    )


def bucket_for(experiment: Experiment, region: str, clients: Clients) -> str | None:
    """The bucket of an experiment in a region: its stack's, or the one the experiment brings, or None where
    there is neither yet.
    """
    stack = experiment.stack_name(region)
    bucket = None
    if stack_status(clients, stack) is not None:
        bucket = bucket_of(stack, clients("cloudformation"))
    return bucket or experiment.placement[region].bucket
