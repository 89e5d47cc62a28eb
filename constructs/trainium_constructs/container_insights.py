"""The Container Insights series that dashboards and alarms may use, with the dimension sets the agent emits
them under.

Source: aws/amazon-cloudwatch-agent @ab55b8d (2026-08-07),
translator/translate/otel/exporter/awsemf/kubernetes.go; enhanced Container Insights and, for Neuron,
accelerated compute metrics. NeuronDevice values are ``device0`` onwards, NeuronCore ``core0`` onwards (same
repository, plugins/processors/gpuattributes/internal/awsneuron_metric_modifier.go).

A chart of a dimension set that nobody emits is an empty chart, so ``AwsSeries.metric`` refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from trainium_constructs import dashboard_body

NAMESPACE = "ContainerInsights"

_CLUSTER = frozenset({"ClusterName"})
_WORKLOAD = frozenset({"ClusterName", "Namespace", "PodName"})
_NODE = frozenset({"ClusterName", "InstanceId", "NodeName"})
_CORE = frozenset({"ClusterName", "InstanceType", "InstanceId", "NodeName", "NeuronDevice", "NeuronCore"})


@dataclass(frozen=True, slots=True)
class AwsSeries:
    """A metric that Container Insights emits.

    Attributes:
        name: metric name.
        symbol: what a person reads.
        dimension_sets: the sets of dimension names it is emitted under.
    """

    name: str
    symbol: str
    dimension_sets: tuple[frozenset[str], ...]

    def metric(self, dimensions: Mapping[str, str], *, statistic: str, period: Duration) -> cloudwatch.Metric:
        """A CDK metric of this series, for alarms.

        Raises:
            ValueError: the agent does not emit the series under these dimensions.
        """
        self._require(frozenset(dimensions))
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=self.name,
            dimensions_map=dict(dimensions),
            statistic=statistic,
            period=period,
            label=self.symbol,
        )

    def row(
        self,
        dimensions: Mapping[str, str],
        *,
        statistic: str,
        period: int,
        label: str | None = None,
        identity: str | None = None,
        visible: bool = True,
    ) -> dashboard_body.Row:
        """A row of a chart of this series; ``period`` in seconds.

        Raises:
            ValueError: the agent does not emit the series under these dimensions.
        """
        self._require(frozenset(dimensions))
        return dashboard_body.metric(
            NAMESPACE,
            self.name,
            dimensions,
            statistic=statistic,
            label=label or self.symbol,
            period=period,
            identity=identity,
            visible=visible,
        )

    def search(
        self,
        fixed: Mapping[str, str],
        any_of: Mapping[str, tuple[str, ...]],
        free: tuple[str, ...],
        *,
        statistic: str,
    ) -> str:
        """A SEARCH expression: ``fixed`` dimensions have one value, ``any_of`` one of several, ``free`` any.

        Raises:
            ValueError: the agent does not emit the series under these dimensions.
        """
        names = frozenset(fixed) | frozenset(any_of) | frozenset(free)
        self._require(names)
        terms = [f'MetricName="{self.name}"', *(f'{name}="{value}"' for name, value in fixed.items())]
        for name, values in any_of.items():
            alternatives = " OR ".join(f'{name}="{value}"' for value in values)
            terms.append(f"({alternatives})")
        return f"SEARCH('{{{','.join([NAMESPACE, *sorted(names)])}}} {' '.join(terms)}', '{statistic}')"

    def _require(self, names: frozenset[str]) -> None:
        if names not in self.dimension_sets:
            known = "; ".join(", ".join(sorted(dimension_set)) for dimension_set in self.dimension_sets)
            raise ValueError(f"{self.name} is not emitted by {', '.join(sorted(names))}; use {known}")


def beyond(system_nodes: int) -> str:
    """Accelerator nodes, as metric math over ``nodes``: Container Insights counts all nodes of a cluster
    together.
    """
    return f"IF(nodes > {system_nodes}, nodes - {system_nodes}, 0)"


def _core(name: str, symbol: str) -> AwsSeries:
    return AwsSeries(name, symbol, (_CLUSTER, _NODE, _CORE))


def _workload(name: str, symbol: str) -> AwsSeries:
    return AwsSeries(name, symbol, (_CLUSTER, _WORKLOAD))


CORE_UTILIZATION = _core("node_neuroncore_utilization", "NeuronCore utilization, %")
CORE_MEMORY = (
    _core("node_neuroncore_memory_usage_constants", "constants (weights)"),
    _core("node_neuroncore_memory_usage_tensors", "tensors (KV cache, activations)"),
    _core("node_neuroncore_memory_usage_model_code", "model code"),
    _core("node_neuroncore_memory_usage_model_shared_scratchpad", "shared scratchpad"),
    _core("node_neuroncore_memory_usage_runtime_memory", "runtime"),
)
EXECUTION_ERRORS = AwsSeries("node_neuron_execution_errors_total", "execution errors", (_CLUSTER, _NODE))
EXECUTION_LATENCY = AwsSeries("node_neuron_execution_latency", "execution latency", (_CLUSTER, _NODE))
DEVICE_MEMORY = AwsSeries(
    "node_neurondevice_runtime_memory_used_bytes", "device memory used by the runtime", (_CLUSTER, _NODE)
)
ECC_EVENTS = AwsSeries(
    "node_neurondevice_hw_ecc_events_total",
    "ECC events, corrected and not",
    (_CLUSTER, _NODE, _NODE | {"NeuronDevice"}),
)
NODE_COUNT = AwsSeries("cluster_node_count", "nodes", (_CLUSTER,))
FAILED_NODE_COUNT = AwsSeries("cluster_failed_node_count", "failed nodes", (_CLUSTER,))
REPLICAS_READY = _workload("replicas_ready", "ready replicas")
REPLICAS_DESIRED = _workload("replicas_desired", "desired replicas")
RESTARTS = _workload("pod_number_of_container_restarts", "container restarts")
CRASH_LOOP = _workload(
    "pod_container_status_waiting_reason_crash_loop_back_off", "containers in a crash loop"
)
PULL_ERROR = _workload(
    "pod_container_status_waiting_reason_image_pull_error", "containers whose image cannot be pulled"
)
OUT_OF_MEMORY = _workload("pod_container_status_terminated_reason_oom_killed", "containers killed for memory")
PODS_FAILED = _workload("pod_status_failed", "failed pods")
PODS_PENDING = _workload("pod_status_pending", "pending pods")

ALL = (
    CORE_UTILIZATION,
    *CORE_MEMORY,
    EXECUTION_ERRORS,
    EXECUTION_LATENCY,
    DEVICE_MEMORY,
    ECC_EVENTS,
    NODE_COUNT,
    FAILED_NODE_COUNT,
    REPLICAS_READY,
    REPLICAS_DESIRED,
    RESTARTS,
    CRASH_LOOP,
    PULL_ERROR,
    OUT_OF_MEMORY,
    PODS_FAILED,
    PODS_PENDING,
)
