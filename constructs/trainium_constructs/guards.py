"""Limits on what a forgotten experiment can cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import aws_cdk as cdk
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from trainium_constructs.acknowledgements import acknowledge, as_reported, wildcard
from trainium_constructs.roles import service_role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainium_constructs.cluster import Cluster


class ScaleDown(Construct):
    """Sets node groups to 0 nodes, once at a time or every so many hours, without any code of ours to run.

    A rate schedule without a start date fires as soon as it exists (EventBridge Scheduler user guide,
    "Rate-based schedules"). The node group must therefore depend on this construct: the first call then finds
    no group and does nothing, and the hours count from the deployment. A start date would need the clock at
    synthesis.

    Args:
        scope: parent construct.
        construct_id: construct id.
        cluster: the cluster; its name is needed before it exists.
        node_groups: names of the node groups that there are or may be.
        max_nodes: upper limit of each group, which the call has to repeat.
        at: UTC time, ``YYYY-MM-DDThh:mm:ss``.
        every_hours: hours between two calls; 0 for none.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: Cluster,
        node_groups: Sequence[str],
        max_nodes: int,
        at: str | None,
        every_hours: int,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        group_arns = [
            stack.format_arn(service="eks", resource="nodegroup", resource_name=f"{cluster.name}/{group}/*")
            for group in node_groups
        ]
        self._role = service_role(
            self,
            "Role",
            service="scheduler.amazonaws.com",
            conditions={"StringEquals": {"aws:SourceAccount": stack.account}},
        )
        self._role.add_to_policy(
            iam.PolicyStatement(sid="ScaleDown", actions=["eks:UpdateNodegroupConfig"], resources=group_arns)
        )
        acknowledge(
            self._role,
            {
                wildcard(as_reported(self, arn)): "The ARN of a node group ends in an id that only EKS knows"
                for arn in group_arns
            },
        )
        for group in node_groups:
            # The scheduler reads these names as the SDK writes them, with a capital first letter; it refuses
            # the REST form.
            call = json.dumps(
                {
                    "ClusterName": cluster.name,
                    "NodegroupName": group,
                    "ScalingConfig": {"MinSize": 0, "MaxSize": max_nodes, "DesiredSize": 0},
                }
            )
            # By the whole name: another reservation is another group with another schedule.
            part = "".join(word.title() for word in group.split("-"))
            if at is not None:
                self._schedule(f"At{part}", f"at({at})", call, retries=5)
            if every_hours:
                hours = f"rate({every_hours} hour{'s' if every_hours > 1 else ''})"
                self._schedule(f"Every{part}", hours, call, retries=0)

    def _schedule(self, construct_id: str, expression: str, call: str, *, retries: int) -> None:
        schedule = scheduler.CfnSchedule(
            self,
            construct_id,
            description="Sets the accelerator nodes to 0",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            schedule_expression=expression,
            schedule_expression_timezone="UTC",
            target=scheduler.CfnSchedule.TargetProperty(
                arn=f"arn:{cdk.Aws.PARTITION}:scheduler:::aws-sdk:eks:updateNodegroupConfig",
                role_arn=self._role.role_arn,
                input=call,
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=retries, maximum_event_age_in_seconds=3600
                ),
            ),
        )
        schedule.node.add_dependency(self._role)


class Budget(Construct):
    """A monthly cost budget for one region, with e-mails at 80 % and 100 % spent and when the forecast passes
    it.

    Args:
        scope: parent construct.
        construct_id: construct id.
        name: name of the budget.
        monthly_usd: the limit.
        email: who hears of it.
        region: only costs of this region count.
        covers: ``region`` counts all costs of the region, ``experiment`` those with the tag ``experiment``. A
            tag counts only after it was activated as a cost allocation tag, so a budget on it can stay
            silent.
        experiment: value of the tag.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        monthly_usd: float,
        email: str,
        region: str,
        covers: Literal["region", "experiment"],
        experiment: str,
    ) -> None:
        super().__init__(scope, construct_id)
        filters = {"Region": [region]}
        if covers == "experiment":
            filters["TagKeyValue"] = [f"user:experiment${experiment}"]
        subscriber = budgets.CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=email)
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=name,
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=monthly_usd, unit="USD"),
                cost_filters=filters,
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[subscriber],
                )
                for kind, percent in (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
            ],
        )
