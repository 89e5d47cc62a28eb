"""Limits on what a forgotten experiment can cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import aws_cdk as cdk
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from constructs import Construct

from trainium_constructs.acknowledgements import acknowledge, as_reported, wildcard
from trainium_constructs.roles import service_role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainium_constructs.cluster import AnyCluster


_RESIZE, _PUBLISH = "eks:updateNodegroupConfig", "sns:publish"
"""Calls of the AWS API, as universal targets of EventBridge Scheduler name them."""


def _rate(hours: int) -> str:
    return f"rate({hours} hour{'s' if hours > 1 else ''})"


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
        node_groups: names of the node groups that there are or may be, by the letter of their zone.
        max_nodes: upper limit of each group, which the call has to repeat.
        at: UTC time, ``YYYY-MM-DDThh:mm:ss``.
        every_hours: hours between two calls; 0 for none.
        topic: told each time, or None.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: AnyCluster,
        node_groups: Mapping[str, str],
        max_nodes: int,
        at: str | None,
        every_hours: int,
        topic: sns.ITopic | None,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        group_arns = [
            stack.format_arn(service="eks", resource="nodegroup", resource_name=f"{cluster.name}/{group}/*")
            for group in node_groups.values()
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
        for letter, group in node_groups.items():
            # The scheduler reads these names as the SDK writes them, with a capital first letter; it refuses
            # the REST form.
            call = json.dumps(
                {
                    "ClusterName": cluster.name,
                    "NodegroupName": group,
                    "ScalingConfig": {"MinSize": 0, "MaxSize": max_nodes, "DesiredSize": 0},
                }
            )
            if at is not None:
                self._schedule(f"At{letter}", f"at({at})", _RESIZE, call, retries=5)
            if every_hours:
                self._schedule(f"Every{letter}", _rate(every_hours), _RESIZE, call, retries=0)
        if topic is not None:
            self._tell(topic, cluster.name, at, every_hours)

    def _tell(self, topic: sns.ITopic, cluster: str, at: str | None, every_hours: int) -> None:
        """A schedule has one target, so the message is a schedule of its own at the same time."""
        self._role.add_to_policy(
            iam.PolicyStatement(sid="Tell", actions=["sns:Publish"], resources=[topic.topic_arn])
        )
        message = json.dumps(
            {
                "TopicArn": topic.topic_arn,
                "Subject": f"{cluster}: accelerator nodes set to 0",
                "Message": "The guard of the experiment has set the accelerator nodes to 0. Nothing in the"
                " bucket is lost; `specdec nodes up` brings nodes back.",
            }
        )
        if at is not None:
            self._schedule("TellAt", f"at({at})", _PUBLISH, message, retries=5)
        if every_hours:
            self._schedule("TellEvery", _rate(every_hours), _PUBLISH, message, retries=0)

    def _schedule(
        self, construct_id: str, expression: str, call: str, arguments: str, *, retries: int
    ) -> None:
        schedule = scheduler.CfnSchedule(
            self,
            construct_id,
            description="Sets the accelerator nodes to 0",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            schedule_expression=expression,
            schedule_expression_timezone="UTC",
            target=scheduler.CfnSchedule.TargetProperty(
                arn=f"arn:{cdk.Aws.PARTITION}:scheduler:::aws-sdk:{call}",
                role_arn=self._role.role_arn,
                input=arguments,
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=retries, maximum_event_age_in_seconds=3600
                ),
            ),
        )
        schedule.node.add_dependency(self._role)


class Budget(Construct):
    """A monthly cost budget for one region, with notices at 80 % and 100 % spent and when the forecast passes
    it.

    Args:
        scope: parent construct.
        construct_id: construct id.
        name: name of the budget.
        monthly_usd: the limit.
        topic: who hears of it.
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
        topic: sns.ITopic,
        region: str,
        covers: Literal["region", "experiment"],
        experiment: str,
    ) -> None:
        super().__init__(scope, construct_id)
        filters = {"Region": [region]}
        if covers == "experiment":
            filters["TagKeyValue"] = [f"user:experiment${experiment}"]
        subscriber = budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=topic.topic_arn)
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
