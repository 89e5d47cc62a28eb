"""The progress of a deployed run: the last progress line that the benchmark pod has printed, from the
cluster's API or from CloudWatch Logs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from specdec.aws import calls, code
from specdec.operate.workloads import BENCHMARK, NAME_LABEL
from specdec.runs.progress import MARK, Progress, newest

if TYPE_CHECKING:
    from specdec.deployed.clients import Clients
    from specdec.operate.kubernetes import Kubectl

LOOK_BACK = timedelta(minutes=10)
"""How old the last line may be in CloudWatch: a request may take minutes, the agent a few seconds."""

_TAIL = 20


def from_cluster(kubectl: Kubectl) -> Progress | None:
    """The last progress in the log of the benchmark's newest pod.

    Raises:
        SpecdecError: the cluster cannot be asked, or refuses.
    """
    pods = [
        item
        for item in kubectl.items("pods")
        if item["metadata"].get("labels", {}).get(NAME_LABEL) == BENCHMARK
        and item.get("status", {}).get("phase") == "Running"
    ]
    if not pods:
        return None
    pod = max(pods, key=lambda item: str(item["metadata"].get("creationTimestamp", "")))
    return newest(kubectl(["logs", pod["metadata"]["name"], f"--tail={_TAIL}"]).splitlines())


def from_cloudwatch(stack: str, clients: Clients, *, now: datetime | None = None) -> Progress | None:
    """The last progress of the last ten minutes in the log group of the cluster's containers.

    Args:
        stack: name of the stack, which is the cluster's.
        clients: of the region.
        now: UTC.

    Raises:
        NoAccessError: the identity may not read the log group (``logs:FilterLogEvents``).
    """
    since = (now or datetime.now(UTC)) - LOOK_BACK
    events: list[tuple[int, str]] = []
    with calls():
        pages = clients("logs").get_paginator("filter_log_events")
        try:
            for page in pages.paginate(
                logGroupName=f"/aws/containerinsights/{stack}/application",
                startTime=int(since.timestamp() * 1000),
                filterPattern=f'"{MARK}"',
            ):
                events += [(event["timestamp"], event["message"]) for event in page["events"]]
        except ClientError as error:
            if code(error) != "ResourceNotFoundException":
                raise
            return None
    return newest(message for _, message in sorted(events))
