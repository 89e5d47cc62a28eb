"""Container Insights with the Neuron monitor, and the log groups its agents write to."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct

from trainium_constructs.addons import addon
from trainium_constructs.roles import pod_role

if TYPE_CHECKING:
    from trainium_constructs.cluster import AnyCluster

_ADDON = "amazon-cloudwatch-observability"
_AGENT_ACCOUNT = "cloudwatch-agent"
_KINDS = ("application", "dataplane", "host", "performance")


class ContainerLogs(Construct):
    """The four log groups of Container Insights, created before an agent does it without a retention and
    outside the stack. If the agent exists already, so do they.

    Attributes:
        application: where the output of containers goes.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, cluster: AnyCluster, retention: logs.RetentionDays
    ) -> None:
        super().__init__(scope, construct_id)
        names = {kind: f"/aws/containerinsights/{cluster.name}/{kind}" for kind in _KINDS}
        if _ADDON in cluster.existing_addons:
            self.application = logs.LogGroup.from_log_group_name(self, "Application", names["application"])
            return
        groups = {
            kind: logs.LogGroup(
                self,
                kind.title(),
                log_group_name=name,
                retention=retention,
                removal_policy=cdk.RemovalPolicy.DESTROY,
            )
            for kind, name in names.items()
        }
        self.application = cast("logs.ILogGroup", groups["application"])


class Observability(Construct):
    """The CloudWatch Observability add-on, set to classic Container Insights.

    Classic metrics are ordinary CloudWatch metrics, which dashboards and alarms in a template can name; those
    of the newer OpenTelemetry pipeline are not.
    """

    def __init__(self, scope: Construct, construct_id: str, *, cluster: AnyCluster) -> None:
        super().__init__(scope, construct_id)
        if _ADDON in cluster.existing_addons:
            return
        role = pod_role(
            self,
            "AgentRole",
            cluster_name=cluster.cluster.cluster_name,
            namespace="amazon-cloudwatch",
            service_account=_AGENT_ACCOUNT,
            managed_policies={
                "CloudWatchAgentServerPolicy": (
                    "The policy AWS documents for the add-on; only the agent's pods have it"
                )
            },
        )
        addon(
            self,
            "CloudWatch",
            name=_ADDON,
            cluster=cluster,
            role=role,
            service_account=_AGENT_ACCOUNT,
        )
