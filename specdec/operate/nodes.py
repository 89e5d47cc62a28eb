"""The accelerator node group of a deployed stack: its size, and the progress of everything on it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import DeniedError, calls, code, pages
from specdec.deployed.markers import markers, present
from specdec.deployed.stack import benchmark_applied, bucket_for
from specdec.errors import SpecdecError
from specdec.runs import bucket as run_bucket

if TYPE_CHECKING:
    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment

PREFIX = "accelerator-"
"""Start of the node group's name; zone and purchase follow."""


@dataclass(frozen=True, slots=True)
class Step:
    """The progress of one thing.

    Attributes:
        name: what it is, e.g. ``nodes ready``.
        state: ``done``, ``waiting``, ``failed`` or ``not known``.
        detail: one sentence.
        since: when it came to this state, ISO 8601, where AWS tells.
        source: who said so.
    """

    name: str
    state: str
    detail: str
    since: str | None
    source: str

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


def group_of(experiment: Experiment, region: str, clients: Clients) -> tuple[str, dict[str, Any]]:
    """Name and description of the accelerator node group.

    Raises:
        SpecdecError: no such cluster or group: not deployed.
        NoAccessError: the caller may not ask.
    """
    cluster = experiment.cluster_name(region)
    shared = cluster != experiment.stack_name(region)
    with calls():
        try:
            names = pages(clients("eks"), "list_nodegroups", "nodegroups", clusterName=cluster)
        except ClientError as error:
            if code(error) != "ResourceNotFoundException":
                raise
            names = []
        for name in names:
            if not name.startswith(PREFIX):
                continue
            group = clients("eks").describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
            # A cluster that others use too may have accelerator nodes of theirs.
            if not shared or group.get("tags", {}).get("experiment") == experiment.name:
                return name, group
        stack = experiment.stack_name(region)
        raise SpecdecError(
            f"no accelerator nodes in {region}: {stack} is not deployed",
            remedy=f"uv run npx cdk deploy {stack}",
        )


def resize(experiment: Experiment, region: str, clients: Clients, *, nodes: int) -> str:
    """Sets the size of the node group and returns its name.

    The size that the experiment file deploys with stays as it is: the next deployment sets it again.

    Raises:
        SpecdecError: not deployed, or EKS refuses the size.
    """
    name, group = group_of(experiment, region, clients)
    largest = max(int(group["scalingConfig"]["maxSize"]), 1)
    if nodes > largest:
        raise SpecdecError(
            f"{nodes} nodes requested, and at most {largest} are allowed",
            remedy="Raise capacity.max_nodes and deploy",
        )
    with calls():
        try:
            clients("eks").update_nodegroup_config(
                clusterName=experiment.cluster_name(region),
                nodegroupName=name,
                scalingConfig={"minSize": 0, "maxSize": largest, "desiredSize": nodes},
            )
        except ClientError as error:
            if code(error) in (
                "ResourceInUseException",
                "InvalidRequestException",
                "InvalidParameterException",
            ):
                raise SpecdecError(
                    f"EKS refuses: {error}", remedy="If another update is under way, wait until it has ended"
                ) from None
            raise
    return name


def unstaged(experiment: Experiment, region: str, clients: Clients) -> list[str]:
    """Weights that are not whole in the bucket yet, in words."""
    bucket = bucket_for(experiment, region, clients)
    return [
        what
        for what, key in markers(experiment).items()
        if what.startswith("weights") and (bucket is None or not present(clients, bucket, key))
    ]


def status(experiment: Experiment, region: str, clients: Clients) -> list[Step]:
    """The progress of the experiment, according to AWS. Kubernetes is asked separately.

    Raises:
        SpecdecError: not deployed.
        NoAccessError: the caller may not ask.
    """
    name, group = group_of(experiment, region, clients)
    wanted = int(group["scalingConfig"]["desiredSize"])
    steps = [_capacity(name, group, wanted), _instances(experiment, region, clients, name, wanted)]
    bucket = bucket_for(experiment, region, clients)
    if bucket is not None:
        steps += _stored(experiment, clients, bucket)
        steps.append(_latest_run(experiment, region, clients, bucket))
    return [*steps, *_alarms(experiment.stack_name(region), clients)]


def _alarms(stack: str, clients: Clients) -> list[Step]:
    try:
        with calls():
            alarms = pages(
                clients("cloudwatch"),
                "describe_alarms",
                "MetricAlarms",
                AlarmNamePrefix=f"{stack}-",
                StateValue="ALARM",
            )
    except DeniedError as error:
        return [Step("alarms", "not known", str(error), None, "CloudWatch")]
    return [
        Step(
            f"alarm {alarm['AlarmName'].removeprefix(f'{stack}-')}",
            # Nodes that are up for long cost money, but nothing is wrong with them.
            "waiting" if "NodesLeftRunning" in alarm["AlarmName"] else "failed",
            str(alarm.get("AlarmDescription") or alarm.get("StateReason", "")),
            alarm["StateUpdatedTimestamp"].isoformat() if "StateUpdatedTimestamp" in alarm else None,
            "CloudWatch",
        )
        for alarm in alarms
    ]


def _capacity(name: str, group: dict[str, Any], wanted: int) -> Step:
    issues = group.get("health", {}).get("issues", [])
    if issues:
        problems = "; ".join(f"{issue.get('code')}: {issue.get('message')}" for issue in issues)
        return Step("capacity", "failed", f"{name}: {problems}", None, "EKS")
    active = group["status"] == "ACTIVE"
    return Step(
        "capacity",
        "done" if active else "waiting",
        f"{name} is {group['status']}, {wanted} nodes wanted",
        None,
        "EKS",
    )


def _instances(experiment: Experiment, region: str, clients: Clients, name: str, wanted: int) -> Step:
    filters = [
        {"Name": "tag:eks:cluster-name", "Values": [experiment.cluster_name(region)]},
        {"Name": "tag:eks:nodegroup-name", "Values": [name]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    with calls():
        reservations = pages(clients("ec2"), "describe_instances", "Reservations", Filters=filters)
    instances = [instance for reservation in reservations for instance in reservation["Instances"]]
    running = [instance for instance in instances if instance["State"]["Name"] == "running"]
    latest = max((instance["LaunchTime"] for instance in running), default=None)
    state = "done" if len(running) == wanted else "waiting"
    return Step(
        "instances running",
        state,
        f"{len(running)} of {wanted}",
        latest.isoformat() if latest else None,
        "EC2",
    )


def _stored(experiment: Experiment, clients: Clients, bucket: str) -> list[Step]:
    steps: list[Step] = []
    for what, key in markers(experiment).items():
        with calls():
            try:
                made = clients("s3").head_object(Bucket=bucket, Key=key)["LastModified"]
                steps.append(Step(what, "done", f"s3://{bucket}/{key}", made.isoformat(), "S3"))
            except ClientError as error:
                if code(error) not in ("404", "NoSuchKey", "NotFound"):
                    raise
                steps.append(Step(what, "waiting", "not in the bucket yet", None, "S3"))
    return steps


def latest_run(experiment: Experiment, region: str, clients: Clients) -> Step | None:
    """How the newest run ended; waiting if the benchmark that was deployed last has not run yet. None where
    there is no bucket.
    """
    bucket = bucket_for(experiment, region, clients)
    return None if bucket is None else _latest_run(experiment, region, clients, bucket)


_APPLYING = timedelta(minutes=5)
"""A pod may begin this long before CloudFormation notes that its Job was applied."""


def _latest_run(experiment: Experiment, region: str, clients: Clients, bucket: str) -> Step:
    finished = run_bucket.ended(clients("s3"), bucket)
    if not finished:
        return Step("benchmark", "waiting", "no run has ended yet", None, "S3")
    latest = finished[0]
    outcome = run_bucket.outcome(latest.run, clients("s3"), bucket)
    applied = benchmark_applied(experiment.stack_name(region), clients)
    if applied is not None and run_bucket.began(latest.run) < applied - _APPLYING:
        words = f"not yet for what was deployed at {applied:%Y-%m-%d %H:%M} UTC; before that {latest.run}"
        return Step("benchmark", "waiting", f"{words}: {outcome}", applied.isoformat(), "CloudFormation")
    state = "done" if outcome == "complete" else "failed"
    return Step("benchmark", state, f"run {latest.run}: {outcome}", latest.at, "S3")
