"""What an experiment still has in the account: its stack, and everything with its names or tags that belongs
to no stack.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import calls, code, pages
from specdec.catalog.addons import OBSERVABILITY
from specdec.deployed.stack import stack_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment


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


def find(experiment: Experiment, region: str, clients: Clients) -> list[Leftover]:
    """Everything with the experiment's names or tags in one region that no living stack of it owns.

    Kinds are looked up one by one, since not everything that can be left behind carries tags.

    Raises:
        NoAccessError: the caller may not look, so an empty list would be a lie.
    """
    name = experiment.stack_name(region)
    if (status := stack_status(clients, name)) is not None:
        return [Leftover("stack", f"{name} ({status})", region, f"uv run npx cdk destroy {name}")]
    # One thing may be found twice by one search; two kinds may well have one name.
    leftovers: dict[tuple[str, str], Leftover] = {}
    for search in _SEARCHES.values():
        with calls():
            leftovers |= {
                (leftover.kind, leftover.name): leftover
                for leftover in search(experiment, name, region, clients)
            }
    known = {leftover.name for leftover in leftovers.values()}
    with calls():
        tagged = {
            (leftover.kind, leftover.name): leftover
            for leftover in _tagged(experiment, name, region, clients)
            if leftover.name not in known
        }
    return [*leftovers.values(), *tagged.values()]


def _ours(found: str, name: str) -> bool:
    """Whether a name is the stack's or begins with it as a whole word: `a-us-east-1` does not own
    `a-us-east-10`.
    """
    return found == name or found.startswith(f"{name}-")


_CUT = 24
"""Roles and schedules have names of at most 64 characters, in which CloudFormation shortens a long stack
name. So much of it is compared; it covers an experiment's name whole, which tells experiments apart."""


def _clusters(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    for cluster in pages(clients("eks"), "list_clusters", "clusters"):
        if cluster == name:
            yield Leftover(
                "cluster", cluster, region, f"aws eks delete-cluster --name {cluster} --region {region}"
            )


def _log_groups(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    # Agents and services write once more while they are taken down, and so make a group anew that the stack
    # has deleted. The last prefix is of the groups whose name CloudFormation chose: flow logs and functions.
    prefixes = [*(f"{start}{name}/" for start in SERVICE_LOGS), f"/aws/lambda/{name}-", f"{name}-"]
    place = experiment.placement[region]
    if place.cluster_name is not None and OBSERVABILITY not in place.cluster_addons:
        # In a cluster that exists, the agent was ours.
        prefixes.append(f"{CONTAINER_LOGS}{place.cluster_name}/")
    for prefix in prefixes:
        for group in pages(clients("logs"), "describe_log_groups", "logGroups", logGroupNamePrefix=prefix):
            group_name = group["logGroupName"]
            yield Leftover(
                "log group",
                group_name,
                region,
                f"aws logs delete-log-group --log-group-name {group_name} --region {region}",
            )


CONTAINER_LOGS = "/aws/containerinsights/"
SERVICE_LOGS = ("/aws/eks/", CONTAINER_LOGS)


def _dashboards(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    for board in pages(
        clients("cloudwatch"), "list_dashboards", "DashboardEntries", DashboardNamePrefix=name
    ):
        board_name = board["DashboardName"]
        if _ours(board_name, name):
            remove = f"aws cloudwatch delete-dashboards --dashboard-names {board_name} --region {region}"
            yield Leftover("dashboard", board_name, region, remove)


def _alarms(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    for alarm in pages(clients("cloudwatch"), "describe_alarms", "MetricAlarms", AlarmNamePrefix=f"{name}-"):
        alarm_name = alarm["AlarmName"]
        yield Leftover(
            "alarm",
            alarm_name,
            region,
            f"aws cloudwatch delete-alarms --alarm-names {alarm_name} --region {region}",
        )


def _buckets(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    for bucket in clients("s3").list_buckets().get("Buckets", []):
        if _ours(bucket["Name"], name):
            yield _bucket(experiment, bucket["Name"], region)


def _bucket(experiment: Experiment, bucket: str, region: str) -> Leftover:
    kept = "store.on_destroy is `retain`" if experiment.store.on_destroy == "retain" else None
    if region in experiment.placement and experiment.placement[region].bucket == bucket:
        kept = f"placement.{region}.bucket names it"
    return Leftover("bucket", bucket, region, f"aws s3 rb --force s3://{bucket}", kept)


def _interfaces(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    # Left over, they hold the subnet and with it the VPC. The VPC CNI tags its own with the cluster; those of
    # EKS and of functions say whose they are in their description.
    for by in (
        {"Name": "tag:cluster.k8s.amazonaws.com/name", "Values": [name]},
        # CloudFormation cuts a long stack name in the name of a function.
        {"Name": "description", "Values": [f"Amazon EKS {name}", f"AWS Lambda VPC ENI-{name[:_CUT]}*"]},
    ):
        for interface in pages(
            clients("ec2"), "describe_network_interfaces", "NetworkInterfaces", Filters=[by]
        ):
            if not _is_interface_of(str(interface.get("Description", "")), name):
                continue
            interface_id = interface["NetworkInterfaceId"]
            remove = (
                f"aws ec2 delete-network-interface --network-interface-id {interface_id} --region {region}"
            )
            yield Leftover("network interface", interface_id, region, remove)


_FUNCTION = re.compile(r"AWS Lambda VPC ENI-(?P<stack>.+)-[A-Za-z0-9]+-[A-Za-z0-9]{12}-[0-9a-f-]+")
"""Description of a function's interface: the function's name, which CloudFormation makes of stack name,
logical id and twelve characters, then an id of Lambda's own.
"""


def _is_interface_of(description: str, name: str) -> bool:
    """Whether an interface is the stack's. A stack name longer than 24 characters is compared as it was cut,
    which covers an experiment's name whole.
    """
    function = _FUNCTION.fullmatch(description)
    if function is None:
        return not description.startswith("AWS Lambda")
    stack = function["stack"]
    return stack == name or (len(stack) >= _CUT and name.startswith(stack))


def _volumes(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    filters = [
        {"Name": f"tag:kubernetes.io/cluster/{name}", "Values": ["owned"]},
        {"Name": "status", "Values": ["available"]},
    ]
    for volume in pages(clients("ec2"), "describe_volumes", "Volumes", Filters=filters):
        volume_id = volume["VolumeId"]
        yield Leftover(
            "volume", volume_id, region, f"aws ec2 delete-volume --volume-id {volume_id} --region {region}"
        )


def _schedules(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    for schedule in pages(clients("scheduler"), "list_schedules", "Schedules", NamePrefix=name[:_CUT]):
        schedule_name = schedule["Name"]
        if len(name) <= _CUT and not _ours(schedule_name, name):
            continue
        yield Leftover(
            "schedule",
            schedule_name,
            region,
            f"aws scheduler delete-schedule --name {schedule_name} --region {region}",
        )


def _roles(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    iam = clients("iam")
    prefix = experiment.account.role_prefix
    for role in pages(iam, "list_roles", "Roles"):
        role_name = role["RoleName"]
        if not role_name.startswith(f"{prefix}{name[:_CUT]}") or not (
            _ours(role_name, f"{prefix}{name}") or _is_of_stack(iam, role_name, name)
        ):
            continue
        yield Leftover(
            "role",
            role_name,
            region,
            f"IAM console > Roles > {role_name} > Delete, which detaches its policies too",
        )


def _is_of_stack(iam: Any, role: str, stack: str) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in iam.get_role(RoleName=role)["Role"].get("Tags", [])}
    return tags.get(_STACK_TAG) == stack


def _budgets(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    # Not every identity may read budgets, so they are asked for only where the experiment has one.
    if experiment.guards.monthly_budget_usd is None:
        return
    account = clients("sts").get_caller_identity()["Account"]
    try:
        clients("budgets").describe_budget(AccountId=account, BudgetName=name)
    except ClientError as error:
        if code(error) != "NotFoundException":
            raise
        return
    yield Leftover(
        "budget", name, region, f"aws budgets delete-budget --account-id {account} --budget-name {name}"
    )


_STACK_TAG = "aws:cloudformation:stack-name"

_SEARCHES: dict[str, Callable[[Experiment, str, str, Clients], Iterable[Leftover]]] = {
    "cluster": _clusters,
    "log group": _log_groups,
    "dashboard": _dashboards,
    "alarm": _alarms,
    "bucket": _buckets,
    "network interface": _interfaces,
    "volume": _volumes,
    "schedule": _schedules,
    "role": _roles,
    "budget": _budgets,
}
"""What is found by its name, or by a tag that is not the stack's."""

_REMOVE = {
    "ec2/elastic-ip": "release-address --allocation-id",
    "ec2/instance": "terminate-instances --instance-ids",
    "ec2/internet-gateway": "delete-internet-gateway --internet-gateway-id",
    "ec2/launch-template": "delete-launch-template --launch-template-id",
    "ec2/natgateway": "delete-nat-gateway --nat-gateway-id",
    "ec2/network-interface": "delete-network-interface --network-interface-id",
    "ec2/placement-group": "delete-placement-group --group-name",
    "ec2/route-table": "delete-route-table --route-table-id",
    "ec2/security-group": "delete-security-group --group-id",
    "ec2/subnet": "delete-subnet --subnet-id",
    "ec2/volume": "delete-volume --volume-id",
    "ec2/vpc": "delete-vpc --vpc-id",
    "ec2/vpc-endpoint": "delete-vpc-endpoints --vpc-endpoint-ids",
    "ec2/vpc-flow-log": "delete-flow-logs --flow-log-ids",
    "kms/key": "schedule-key-deletion --pending-window-in-days 7 --key-id",
    "lambda/function": "delete-function --function-name",
    "sns/topic": "delete-topic --topic-arn",
    "ssm/parameter": "delete-parameter --name",
}

KINDS = frozenset({"stack", *_SEARCHES, *(kind.replace("/", " ") for kind in _REMOVE)})
"""Every kind whose removal is known. A tagged thing of another kind is listed too, with the console as its
remedy.
"""


def _tagged(experiment: Experiment, name: str, region: str, clients: Clients) -> Iterator[Leftover]:
    """Everything with one of three tags: the stack's, which CloudFormation sets on its resources, the
    experiment's, or the cluster's.
    """
    for tag, value in ((_STACK_TAG, name), ("experiment", experiment.name), ("eks:cluster-name", name)):
        wanted = [{"Key": tag, "Values": [value]}]
        for mapping in pages(
            clients("resourcegroupstaggingapi"), "get_resources", "ResourceTagMappingList", TagFilters=wanted
        ):
            arn = mapping["ResourceARN"]
            service, _, _, resource = arn.split(":", 5)[2:]
            if service == "s3":
                if tag == _STACK_TAG or _ours(resource, name):
                    yield _bucket(experiment, resource, region)
            elif service not in ("cloudformation", "ec2") and f":{region}:" in arn:
                # The ARN of a topic names no kind, and is what it is deleted by.
                if service == "sns":
                    yield _described(service, "topic", arn, region)
                    continue
                kind, _, rest = resource.replace(":", "/", 1).partition("/")
                yield _described(
                    service, kind, rest or kind, region, _key_kept(clients, arn) if service == "kms" else None
                )
        # EC2 is asked itself: it knows its tags at once, and of some kinds that the tagging service leaves
        # out.
        wanted = [{"Name": "key", "Values": [tag]}, {"Name": "value", "Values": [value]}]
        for description in pages(clients("ec2"), "describe_tags", "Tags", Filters=wanted):
            handle = _handle(clients, description["ResourceType"], description["ResourceId"])
            if handle is not None:
                yield _described("ec2", description["ResourceType"], handle, region)


def _described(service: str, kind: str, name: str, region: str, kept: str | None = None) -> Leftover:
    remove = _REMOVE.get(f"{service}/{kind}")
    command = (
        f"aws {service} {remove} {name} --region {region}"
        if remove
        else f"Delete it in the {service} console, region {region}"
    )
    return Leftover(f"{service} {kind}", name, region, command, kept)


def _handle(clients: Clients, kind: str, found: str) -> str | None:
    """The name by which a tagged thing is removed, or None if it is gone. Tags outlive their resource by
    about an hour, so EC2 is asked whether the two expensive kinds and placement groups still exist.
    """
    if kind == "instance":
        filters = [{"Name": "instance-id", "Values": [found]}]
        reservations = pages(clients("ec2"), "describe_instances", "Reservations", Filters=filters)
        return (
            found
            if any(
                instance["State"]["Name"] != "terminated"
                for entry in reservations
                for instance in entry["Instances"]
            )
            else None
        )
    if kind == "natgateway":
        filters = [{"Name": "nat-gateway-id", "Values": [found]}]
        gateways = pages(clients("ec2"), "describe_nat_gateways", "NatGateways", Filters=filters)
        return found if any(gateway["State"] != "deleted" for gateway in gateways) else None
    if kind == "placement-group":
        # It is tagged by its id and deleted by its name.
        groups: list[dict[str, Any]] = clients("ec2").describe_placement_groups()["PlacementGroups"]
        return next(
            (
                str(group["GroupName"])
                for group in groups
                if group["GroupId"] == found and group["State"] not in ("deleting", "deleted")
            ),
            None,
        )
    return found


def _key_kept(clients: Clients, arn: str) -> str | None:
    state = clients("kms").describe_key(KeyId=arn)["KeyMetadata"].get("KeyState")
    return (
        "its deletion is scheduled: KMS waits 7 days at least, without charge"
        if state == "PendingDeletion"
        else None
    )
