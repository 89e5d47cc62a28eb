"""What of an experiment is in the account: its stack, and whatever has its names or tags without belonging to a stack."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import calls, code, pages
from specdec.preflight.finding import Clients, Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from specdec.experiment import Experiment


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that still exists.

    Attributes:
        kind: what it is, e.g. ``log group``.
        name: name or id.
        region: where.
        remove: command that removes it.
        kept: why it is meant to be there, or None.
    """

    kind: str
    name: str
    region: str
    remove: str
    kept: str | None = None

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


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


def find(experiment: Experiment, region: str, clients: Clients) -> list[Leftover]:
    """Everything with the experiment's names or tags in one region that no living stack of it owns.

    Kinds are looked up one by one, since not everything that can be left behind carries tags.

    Raises:
        NoAccessError: the caller may not look, so an empty list would be a lie.
    """
    name = experiment.stack_name(region)
    if (status := stack_status(clients, name)) is not None:
        return [Leftover("stack", f"{name} ({status})", region, f"uv run npx cdk destroy {name}")]
    searches: tuple[Callable[[], Iterable[Leftover]], ...] = (
        lambda: _clusters(name, region, clients),
        lambda: _log_groups(name, region, clients),
        lambda: _dashboards(name, region, clients),
        lambda: _alarms(name, region, clients),
        lambda: _buckets(experiment, name, region, clients),
        lambda: _interfaces(name, region, clients),
        lambda: _volumes(name, region, clients),
        lambda: _schedules(name, region, clients),
        lambda: _tagged(experiment, name, region, clients),
    )
    found: dict[str, Leftover] = {}
    for search in searches:
        with calls():
            for leftover in search():
                found.setdefault(leftover.name, leftover)
    return list(found.values())


def _clusters(name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    for cluster in pages(clients("eks"), "list_clusters", "clusters"):
        if cluster == name:
            yield Leftover("cluster", cluster, region, f"aws eks delete-cluster --name {cluster} --region {region}")


def _log_groups(name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    # Agents and services write once more while they are taken down, and so make a group anew that the stack has deleted.
    prefixes = (f"/aws/eks/{name}/", f"/aws/containerinsights/{name}/", f"/aws/lambda/{name}-", f"/aws/vpc/{name}")
    for prefix in prefixes:
        for group in pages(clients("logs"), "describe_log_groups", "logGroups", logGroupNamePrefix=prefix):
            group_name = group["logGroupName"]
            yield Leftover("log group", group_name, region, f"aws logs delete-log-group --log-group-name {group_name} --region {region}")


def _dashboards(name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    for board in pages(clients("cloudwatch"), "list_dashboards", "DashboardEntries", DashboardNamePrefix=name):
        board_name = board["DashboardName"]
        yield Leftover(
            "dashboard", board_name, region, f"aws cloudwatch delete-dashboards --dashboard-names {board_name} --region {region}"
        )


def _alarms(name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    for alarm in pages(clients("cloudwatch"), "describe_alarms", "MetricAlarms", AlarmNamePrefix=name):
        alarm_name = alarm["AlarmName"]
        yield Leftover("alarm", alarm_name, region, f"aws cloudwatch delete-alarms --alarm-names {alarm_name} --region {region}")


def _buckets(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    kept = "store.on_destroy is `retain`" if experiment.store.on_destroy == "retain" else None
    for bucket in clients("s3").list_buckets().get("Buckets", []):
        if bucket["Name"].startswith(name):
            yield Leftover("bucket", bucket["Name"], region, f"aws s3 rb --force s3://{bucket['Name']}", kept)


def _interfaces(name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    # The VPC CNI tags its interfaces with the cluster; left over, they hold the subnet and with it the VPC.
    filters = [{"Name": "tag:cluster.k8s.amazonaws.com/name", "Values": [name]}]
    for interface in pages(clients("ec2"), "describe_network_interfaces", "NetworkInterfaces", Filters=filters):
        interface_id = interface["NetworkInterfaceId"]
        yield Leftover(
            "network interface",
            interface_id,
            region,
            f"aws ec2 delete-network-interface --network-interface-id {interface_id} --region {region}",
        )


def _volumes(name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    filters = [{"Name": f"tag:kubernetes.io/cluster/{name}", "Values": ["owned"]}, {"Name": "status", "Values": ["available"]}]
    for volume in pages(clients("ec2"), "describe_volumes", "Volumes", Filters=filters):
        volume_id = volume["VolumeId"]
        yield Leftover("volume", volume_id, region, f"aws ec2 delete-volume --volume-id {volume_id} --region {region}")


def _schedules(name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    for schedule in pages(clients("scheduler"), "list_schedules", "Schedules", NamePrefix=name):
        schedule_name = schedule["Name"]
        yield Leftover("schedule", schedule_name, region, f"aws scheduler delete-schedule --name {schedule_name} --region {region}")


_TERMINAL_INSTANCE = "aws ec2 terminate-instances --instance-ids {id} --region {region}"


def _tagged(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    """Whatever carries the stack's own tag, which CloudFormation sets on what it makes, or the experiment's."""
    stack = {"Key": "aws:cloudformation:stack-name", "Values": [name]}
    own = {"Key": "experiment", "Values": [experiment.name]}
    for tags in ([stack], [own]):
        for found in pages(clients("resourcegroupstaggingapi"), "get_resources", "ResourceTagMappingList", TagFilters=tags):
            arn = found["ResourceARN"]
            service, resource = arn.split(":", 5)[2], arn.split(":", 5)[5]
            if service == "cloudformation" or (f":{region}:" not in arn and service not in ("s3", "iam")):
                continue
            if service == "s3" and not resource.startswith(name):
                continue
            remove = (
                _TERMINAL_INSTANCE.format(id=resource.rsplit("/", 1)[-1], region=region)
                if resource.startswith("instance/")
                else f"Delete {arn} in the {service} console"
            )
            kept = "store.on_destroy is `retain`" if service == "s3" and experiment.store.on_destroy == "retain" else None
            if service == "kms":
                kept = _key_kept(clients, arn)
            yield Leftover(f"{service} resource", resource.rsplit(":", 1)[-1], region, remove, kept)


def _key_kept(clients: Clients, arn: str) -> str | None:
    state = clients("kms").describe_key(KeyId=arn)["KeyMetadata"].get("KeyState")
    return "its deletion is scheduled: KMS waits 7 days at least, without charge" if state == "PendingDeletion" else None


def names(scope: Scope) -> Iterator[Finding]:
    """A deployment fails on a stack it cannot update, and on names that something else holds."""
    status = stack_status(scope.clients, scope.stack)
    yield judge_stack(status, name=scope.stack)
    if status is not None:
        return
    for leftover in find(scope.experiment, scope.region, scope.clients):
        level = "warning" if leftover.kept or leftover.kind in ("bucket", "network interface", "volume") else "blocker"
        yield Finding("names", level, f"{leftover.kind} {leftover.name} is left from an earlier deployment", leftover.remove)


def judge_stack(status: str | None, *, name: str) -> Finding:
    """Reads a stack's status; None where there is no stack."""
    if status is None:
        return Finding("names", "ok", f"no stack {name} yet")
    if status in ("CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED", "REVIEW_IN_PROGRESS"):
        return Finding("names", "blocker", f"stack {name} is {status} and cannot be updated", f"uv run npx cdk destroy {name}")
    if status == "UPDATE_ROLLBACK_FAILED":
        return Finding("names", "blocker", f"stack {name} is {status}", f"aws cloudformation continue-update-rollback --stack-name {name}")
    if status.endswith("_IN_PROGRESS"):
        return Finding(
            "names", "blocker", f"stack {name} is {status}", f"Wait: aws cloudformation wait stack-update-complete --stack-name {name}"
        )
    return Finding("names", "ok", f"stack {name} is {status}; deploying updates it")
