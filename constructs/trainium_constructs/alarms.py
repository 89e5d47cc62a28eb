"""Alarms: a service that does not get ready, failed or pending pods, Neuron errors, a failed benchmark, nodes
left running.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from specdec.publish import series
from trainium_constructs import container_insights as insights

if TYPE_CHECKING:
    from trainium_constructs.cluster import AnyCluster
    from trainium_constructs.node_groups import SystemNodes
    from trainium_constructs.workloads import Workloads

_MAX_EVALUATION = Duration.days(1)
"""Longest span an alarm may look back over:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html
"""


class Alarms(Construct):
    """The alarms of one experiment in one region.

    Args:
        scope: parent.
        id: construct id.
        experiment: experiment name, the value of the Experiment dimension.
        cluster: the cluster.
        system_nodes: the nodes that are not accelerator nodes.
        workloads: the servers.
        in_turn: whether servers run one after the other, so that one of them is enough.
        unready_minutes: how long a service may be unready while accelerator nodes are up; has to cover the
            longest start, with the wait for its models and a first compile.
        accelerator_hours: how long accelerator nodes may be up without a break, at most 24.

    Raises:
        ValueError: a span longer than CloudWatch evaluates.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002 (the CDK's own name for it)
        *,
        experiment: str,
        cluster: AnyCluster,
        system_nodes: SystemNodes,
        workloads: Workloads,
        unready_minutes: int,
        in_turn: bool = False,
        accelerator_hours: int = 12,
    ) -> None:
        super().__init__(scope, id)
        for field, span in (
            ("unready_minutes", unready_minutes * 60),
            ("accelerator_hours", accelerator_hours * 3600),
        ):
            if not 0 < span <= _MAX_EVALUATION.to_seconds():
                raise ValueError(
                    f"{field} makes {span} s; an alarm looks back over 1 s to"
                    f" {_MAX_EVALUATION.to_seconds():g} s"
                )
        named = {"ClusterName": cluster.name}
        servers = {server.variant: (server.name,) for server in workloads.servers}
        if in_turn:
            servers = {"servers": tuple(server.name for server in workloads.servers)}
        self.unready = {
            what: self._alarm(
                f"Unready{''.join(part.title() for part in what.split('-'))}",
                _ready_or_no_nodes(named, workloads.namespace, names, system_nodes.count),
                f"{' or '.join(names)} has had no ready pod for {unready_minutes} minutes although"
                f" accelerator nodes are up. Look at: kubectl describe deployment {' '.join(names)} -n"
                f" {workloads.namespace}",
                threshold=1,
                below=True,
                periods=max(1, -(-unready_minutes // 5)),
            )
            for what, names in servers.items()
        }
        self.neuron_errors = self._alarm(
            "NeuronErrors",
            insights.EXECUTION_ERRORS.metric(named, statistic="Sum", period=Duration.minutes(5)),
            "The Neuron runtime reported execution errors. Do not trust results of this time; look"
            " at the server's log",
            threshold=1,
        )
        self.device_errors = self._alarm(
            "DeviceErrors",
            insights.ECC_EVENTS.metric(named, statistic="Sum", period=Duration.minutes(5)),
            "Neuron devices reported memory events, corrected or not. Uncorrected ones mean that the node has"
            " to be replaced; `neuron-monitor` on the node tells them apart",
            threshold=1,
        )
        self.benchmark_failed = self._alarm(
            "BenchmarkFailed",
            cloudwatch.Metric(
                namespace=series.FAILED_RUNS.namespace,
                metric_name=series.FAILED_RUNS.name,
                dimensions_map={"Experiment": experiment},
                statistic="Sum",
                period=Duration.minutes(5),
            ),
            "A benchmark run failed or was cut short. Its manifest in the bucket, under runs/, says why",
            threshold=1,
        )
        # By cluster: a Job's pods carry the Job's name, which changes with what it does. All of these are the
        # agent's own metrics, so that they come although the pod that failed can send none.
        self.pods_failed = self._alarm(
            "PodsFailed",
            insights.PODS_FAILED.metric(named, statistic="Maximum", period=Duration.minutes(5)),
            "A pod has failed: staging, a server or the benchmark. Look at: kubectl get pods -n"
            f" {workloads.namespace}, and at the log group of the containers (output Logs)",
            threshold=1,
        )
        self.images_missing = self._alarm(
            "ImagesMissing",
            insights.PULL_ERROR.metric(named, statistic="Maximum", period=Duration.minutes(5)),
            f"The image of a pod cannot be pulled. Look at: kubectl describe pods -n {workloads.namespace}",
            threshold=1,
        )
        self.pods_pending = self._alarm(
            "PodsPending",
            _pending_with_nodes(named, system_nodes.count),
            "A pod has been pending for an hour although accelerator nodes are up. That is as it should be"
            " while weights still arrive: specdec nodes status. Else look at: kubectl describe pods -n"
            f" {workloads.namespace}",
            threshold=1,
            periods=12,
        )
        self.nodes_left_running = self._alarm(
            "NodesLeftRunning",
            cloudwatch.MathExpression(
                expression=insights.beyond(system_nodes.count),
                using_metrics={
                    "nodes": insights.NODE_COUNT.metric(named, statistic="Maximum", period=Duration.hours(1))
                },
                label="accelerator nodes",
                period=Duration.hours(1),
            ),
            f"Accelerator nodes have been up for {accelerator_hours} hours. If nobody needs them: specdec"
            " nodes down",
            threshold=1,
            periods=accelerator_hours,
        )
        self.all = (
            *self.unready.values(),
            self.neuron_errors,
            self.device_errors,
            self.benchmark_failed,
            self.pods_failed,
            self.images_missing,
            self.pods_pending,
            self.nodes_left_running,
        )

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        description: str,
        *,
        threshold: float,
        below: bool = False,
        periods: int = 1,
    ) -> cloudwatch.Alarm:
        comparison = cloudwatch.ComparisonOperator
        return cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            alarm_description=description,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=(
                comparison.LESS_THAN_THRESHOLD if below else comparison.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
            ),
            # Silence is the normal state of an experiment that is not running, so it must not alarm.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )


def _ready_or_no_nodes(
    cluster: Mapping[str, str], namespace: str, services: tuple[str, ...], system_nodes: int
) -> cloudwatch.MathExpression:
    """Ready replicas of all services, or 1 while there is no accelerator node for them to run on."""
    period = Duration.minutes(5)
    ready = {
        "ready" if number == 1 else f"ready{number}": insights.REPLICAS_READY.metric(
            {**cluster, "Namespace": namespace, "PodName": service}, statistic="Maximum", period=period
        )
        for number, service in enumerate(services, 1)
    }
    # A Deployment that is scaled to 0 may have no metric, and a sum with a missing one would be missing.
    total = "ready" if len(ready) == 1 else " + ".join(f"FILL({name}, 0)" for name in ready)
    return cloudwatch.MathExpression(
        expression=f"IF(nodes > {system_nodes}, {total}, 1)",
        using_metrics={
            "nodes": insights.NODE_COUNT.metric(cluster, statistic="Minimum", period=period),
            **ready,
        },
        label=f"{', '.join(services)} ready",
        period=period,
    )


def _pending_with_nodes(cluster: Mapping[str, str], system_nodes: int) -> cloudwatch.MathExpression:
    """Pending pods, or 0 while there is no accelerator node: without one, servers wait as they should."""
    period = Duration.minutes(5)
    return cloudwatch.MathExpression(
        expression=f"IF(nodes > {system_nodes}, pending, 0)",
        using_metrics={
            "nodes": insights.NODE_COUNT.metric(cluster, statistic="Minimum", period=period),
            "pending": insights.PODS_PENDING.metric(cluster, statistic="Maximum", period=period),
        },
        label="pending pods",
        period=period,
    )
