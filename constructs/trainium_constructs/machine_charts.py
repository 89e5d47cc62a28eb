"""Charts of the machine: devices, services, nodes and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainium_constructs import container_insights as insights
from trainium_constructs.benchmark_charts import PALETTE, cycle
from trainium_constructs.dashboard_body import FULL, HALF, Row, Widget, expression, lines

if TYPE_CHECKING:
    from trainium_constructs.workloads import Workloads


class MachineCharts:
    """Charts of what Container Insights emits."""

    def __init__(self, cluster_name: str, workloads: Workloads) -> None:
        self._cluster = {"ClusterName": cluster_name}
        self._namespace = workloads.namespace
        self._servers = workloads.servers

    def neuron(self, devices: int) -> list[list[Widget]]:
        """Utilization of all cores and of each group of devices that a service can claim; memory; errors.

        Args:
            devices: Neuron devices of one node.
        """
        sizes = sorted({server.devices for server in self._servers})
        groups = [
            range(first, min(first + size, devices)) for size in sizes for first in range(0, devices, size)
        ]
        by_group = [
            expression(
                f"AVG({self._search(members)})",
                label=f"devices {members[0]} to {members[-1]}",
                colour=colour,
                period=60,
            )
            for members, colour in zip(groups, cycle(PALETTE, len(groups)), strict=True)
        ]
        errors = [self._now(series, "Sum") for series in (insights.EXECUTION_ERRORS, insights.ECC_EVENTS)]
        return [
            [
                lines(
                    "NeuronCore utilization, mean, %",
                    [self._now(insights.CORE_UTILIZATION)],
                    maximum=100,
                    width=HALF,
                ),
                lines("NeuronCore utilization by device group, mean, %", by_group, maximum=100, width=HALF),
            ],
            [
                lines(
                    "Memory per NeuronCore, mean, bytes",
                    [self._now(series) for series in insights.CORE_MEMORY],
                    stacked=True,
                ),
                lines(
                    "Device memory used by the runtime, bytes", [self._now(insights.DEVICE_MEMORY, "Maximum")]
                ),
                lines("Neuron errors, count", errors),
            ],
            [
                lines(
                    "Execution latency of the Neuron runtime, s",
                    [self._now(insights.EXECUTION_LATENCY)],
                    width=FULL,
                )
            ],
        ]

    def services(self) -> list[list[Widget]]:
        """Whether the services run."""
        troubles = (insights.CRASH_LOOP, insights.PULL_ERROR, insights.OUT_OF_MEMORY, insights.PODS_FAILED)
        return [
            [
                lines(
                    "Ready and desired replicas",
                    [
                        self._workload(series, server.name)
                        for server in self._servers
                        for series in (insights.REPLICAS_READY, insights.REPLICAS_DESIRED)
                    ],
                ),
                lines(
                    "Container restarts",
                    [self._workload(insights.RESTARTS, server.name) for server in self._servers],
                ),
                lines(
                    "Why a service does not run, containers",
                    [self._workload(series, server.name) for server in self._servers for series in troubles],
                ),
            ]
        ]

    def nodes(self, system_nodes: int, usd_per_hour: float | None) -> list[Widget]:
        """Node count and, with a price, what the accelerator nodes cost over the time range shown."""
        hidden, shown = (
            insights.NODE_COUNT.row(
                self._cluster, statistic="Maximum", period=300, identity="nodes", visible=visible
            )
            for visible in (False, True)
        )
        beyond = insights.beyond(system_nodes)
        counts = lines(
            "Nodes",
            [
                shown,
                self._now(insights.FAILED_NODE_COUNT, "Maximum"),
                expression(beyond, label="accelerator nodes"),
            ],
            width=HALF if usd_per_hour else FULL,
        )
        if usd_per_hour is None:
            return [counts]
        spend = expression(
            f"RUNNING_SUM({beyond}) * PERIOD(nodes) / 3600 * {usd_per_hour:g}", label="accelerator nodes, USD"
        )
        return [
            counts,
            lines("Spend on accelerator nodes in the time range shown, USD", [spend, hidden], width=HALF),
        ]

    def _now(self, one: insights.AwsSeries, statistic: str = "Average") -> Row:
        return one.row(self._cluster, statistic=statistic, period=60)

    def _workload(self, one: insights.AwsSeries, service: str) -> Row:
        dimensions = {**self._cluster, "Namespace": self._namespace, "PodName": service}
        return one.row(dimensions, statistic="Maximum", period=60, label=f"{one.symbol} · {service}")

    def _search(self, members: range) -> str:
        return insights.CORE_UTILIZATION.search(
            self._cluster,
            {"NeuronDevice": tuple(f"device{number}" for number in members)},
            ("InstanceId", "InstanceType", "NeuronCore", "NodeName"),
            statistic="Average",
        )
