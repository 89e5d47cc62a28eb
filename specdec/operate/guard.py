"""The stack's own schedule that sets a node group to 0, and when it fires next."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from specdec.aws import calls, pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdec.deployed.clients import Clients

_KEPT = (
    "ActionAfterCompletion",
    "Description",
    "FlexibleTimeWindow",
    "GroupName",
    "KmsKeyArn",
    "Name",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "State",
    "Target",
)
"""Fields of GetSchedule that UpdateSchedule takes; one that is left out is set to its default."""


def postpone(stack: str, group: str, clients: Clients, *, now: datetime) -> datetime | None:
    """Restarts the schedule of a node group at ``now``, so that nodes just started get their whole time.
    Returns when it comes, or None where the stack has no such schedule.

    A rate schedule begins at its start date (EventBridge Scheduler user guide, "Rate-based schedules").

    Raises:
        NoAccessError: the caller may not change the schedule.
    """
    comes = None
    for schedule in _schedules(stack, clients):
        rate = re.fullmatch(r"rate\((\d+) hours?\)", schedule["ScheduleExpression"])
        if rate is None or json.loads(schedule["Target"]["Input"])["NodegroupName"] != group:
            continue
        comes = now + timedelta(hours=int(rate[1]))
        kept = {field: schedule[field] for field in _KEPT if field in schedule}
        with calls():
            clients("scheduler").update_schedule(**kept, StartDate=comes)
    return comes


def _schedules(stack: str, clients: Clients) -> Iterator[dict[str, Any]]:
    with calls():
        resources = pages(
            clients("cloudformation"), "list_stack_resources", "StackResourceSummaries", StackName=stack
        )
        for resource in resources:
            if resource["ResourceType"] == "AWS::Scheduler::Schedule":
                yield clients("scheduler").get_schedule(Name=resource["PhysicalResourceId"])
