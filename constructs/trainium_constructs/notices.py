"""Who hears of what goes wrong or was stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

if TYPE_CHECKING:
    from collections.abc import Iterable


class Notices(Construct):
    """A topic: the stack's own with one e-mail subscription, or one that there is.

    Args:
        scope: parent construct.
        construct_id: construct id.
        notify: e-mail address, or ARN of a topic, whose own policy must let CloudWatch and Budgets publish.

    Attributes:
        topic: the topic.
    """

    def __init__(self, scope: Construct, construct_id: str, *, notify: str) -> None:
        super().__init__(scope, construct_id)
        if notify.startswith("arn:"):
            self.topic = sns.Topic.from_topic_arn(self, "Topic", notify)
            return
        topic = sns.Topic(self, "Topic", enforce_ssl=True)
        topic.add_subscription(cast("sns.ITopicSubscription", subscriptions.EmailSubscription(notify)))
        for service in ("cloudwatch.amazonaws.com", "budgets.amazonaws.com"):
            topic.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=service.partition(".")[0].title(),
                    principals=[cast("iam.IPrincipal", iam.ServicePrincipal(service))],
                    actions=["sns:Publish"],
                    resources=[topic.topic_arn],
                    conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}},
                )
            )
        self.topic = cast("sns.ITopic", topic)

    def follow(self, alarms: Iterable[cloudwatch.Alarm]) -> None:
        """Has alarms call the topic."""
        action = cast("cloudwatch.IAlarmAction", actions.SnsAction(self.topic))
        for alarm in alarms:
            alarm.add_alarm_action(action)
