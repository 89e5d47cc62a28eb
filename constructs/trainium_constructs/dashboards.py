"""Two dashboards: the experiment's question, and the machine it runs on.

Every chart is made from a series definition: ``specdec.metrics`` and ``specdec.publish.series`` for what the
benchmark publishes, ``container_insights`` for what AWS emits. No metric name is written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from aws_cdk import Aws
from constructs import Construct

from specdec.metrics.definition import Metric
from specdec.metrics.tpot import TPOT
from specdec.publish import series
from specdec.runs.record import Outcome
from trainium_constructs import container_insights as insights
from trainium_constructs import dashboard_texts as texts
from trainium_constructs.dashboard_body import (
    FULL,
    HALF,
    Row,
    Widget,
    alarm_states,
    bars,
    dashboard,
    expression,
    lines,
    metric,
    text,
    trend,
)

if TYPE_CHECKING:
    from trainium_constructs.alarms import Alarms
    from trainium_constructs.cluster import Cluster
    from trainium_constructs.node_groups import SystemNodes
    from trainium_constructs.trainium_nodes import TrainiumNodes
    from trainium_constructs.workloads import Workloads

MAX_METRICS_PER_WIDGET = 500
MAX_METRICS_PER_DASHBOARD = 2500
"""CloudWatch service quotas,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html
"""

_PALETTE = ("#7f7f7f", "#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b")
"""One colour per variant, the baseline in grey."""


class Dashboards(Construct):
    """The dashboards of one experiment in one region.

    Args:
        scope: parent.
        id: construct id.
        experiment: experiment name, the value of the Experiment dimension.
        cluster: the cluster. The first dashboard has its name, the second is ``<name>-machine``; dashboard
            names are unique in an account, and that of the cluster contains the region.
        system_nodes: the nodes that are not accelerator nodes.
        accelerators: the accelerator nodes.
        workloads: the servers.
        alarms: shown with their state.
        metrics: the metrics of the exact lane.
        test_cases: test cases of the exact lane.
        llmperf_test_cases: test cases of the LLMPerf lane; empty leaves its section out.
        loads: of a benchmark with several; empty leaves their charts out.
        node_usd_per_hour: price of an accelerator node; None leaves the spend chart out.

    Raises:
        ValueError: more series than CloudWatch draws on one dashboard.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002 (the CDK's own name for it)
        *,
        experiment: str,
        cluster: Cluster,
        system_nodes: SystemNodes,
        accelerators: TrainiumNodes,
        workloads: Workloads,
        alarms: Alarms,
        metrics: Sequence[Metric],
        test_cases: Sequence[str],
        llmperf_test_cases: Sequence[str] = (),
        loads: Sequence[float] = (),
        node_usd_per_hour: float | None = None,
    ) -> None:
        super().__init__(scope, id)
        variants = [server.variant for server in workloads.servers]
        _refuse_too_many(metrics, test_cases, llmperf_test_cases, variants, len(loads))
        charts = _Charts(experiment, variants)
        dashboard(
            self,
            "Experiment",
            name=cluster.name,
            shows="P7D",
            rows=[
                [text(texts.HOW_TO_READ, 8)],
                *charts.answer(test_cases),
                *(charts.over_load(test_cases, loads) if loads else []),
                [text(texts.EXACT, 2)],
                *charts.exact(metrics, test_cases),
                *(
                    [[text(texts.LLMPERF, 4)], *charts.llmperf(llmperf_test_cases)]
                    if llmperf_test_cases
                    else []
                ),
            ],
        )
        machine = _Machine(cluster.name, workloads)
        dashboard(
            self,
            "Machine",
            name=f"{cluster.name}-machine",
            shows="PT12H",
            rows=[
                [alarm_states("Alarms", [alarm.alarm_arn for alarm in alarms.all])],
                [text(texts.NEURON, 4)],
                *machine.neuron(accelerators.devices),
                [text(texts.SERVICES, 3)],
                *machine.services(),
                [text(texts.nodes(system_nodes.count, node_usd_per_hour), 4)],
                machine.nodes(system_nodes.count, node_usd_per_hour),
            ],
        )

    @staticmethod
    def url(name: str) -> str:
        """Console address of a dashboard, with the region as a token."""
        home = f"https://{Aws.REGION}.console.aws.amazon.com/cloudwatch/home?region={Aws.REGION}"
        return f"{home}#dashboards/dashboard/{name}"


class _Charts:
    """Charts of what the benchmark publishes: one bar per test case and variant, over the time range
    shown.
    """

    def __init__(self, experiment: str, variants: list[str]) -> None:
        self._experiment = experiment
        self._variants = variants
        self._colours = dict(zip(variants, _cycle(_PALETTE, len(variants)), strict=True))

    def answer(self, test_cases: Sequence[str]) -> list[list[Widget]]:
        """Speed-up and parity: what decides."""
        (tpot,) = series.exact([TPOT])
        baseline, *others = self._variants
        speed_ups: list[Row] = []
        for number, (case, variant) in enumerate(
            (case, variant) for case in test_cases for variant in others
        ):
            speed_ups += [
                expression(
                    f"b{number} / v{number}", label=f"{case} · {variant}", colour=self._colours[variant]
                ),
                self._of(tpot, baseline, case, "p50", identity=f"b{number}"),
                self._of(tpot, variant, case, "p50", identity=f"v{number}"),
            ]
        parity = [
            self._of(series.PARITY, variant, case, "Minimum") for case in test_cases for variant in others
        ]
        by_hour = [
            self._of(tpot, variant, case, "p50", period=3600)
            for case in test_cases
            for variant in self._variants
        ]
        outcomes = [
            self._row(
                series.REQUESTS,
                (self._experiment, variant, outcome),
                "Sum",
                variant,
                label=f"{outcome} · {variant}",
            )
            for outcome in get_args(Outcome)
            for variant in self._variants
        ]
        return [
            [
                bars("Speed-up: median TPOT of the baseline / of the variant (1 = no gain)", speed_ups),
                bars("Parity: share of prompts with the baseline's text, %", parity),
            ],
            [
                trend("Median TPOT by hour, s", by_hour),
                bars("Requests by outcome (all but ok are failures)", outcomes),
            ],
        ]

    def over_load(self, test_cases: Sequence[str], loads: Sequence[float]) -> list[list[Widget]]:
        """Speed-up and the whole service at each load."""
        (tpot,) = (one for one in series.BY_LOAD if one.name == TPOT.name)
        baseline, *others = self._variants
        speed_ups: list[Row] = []
        places = [(case, load, variant) for case in test_cases for load in loads for variant in others]
        for number, (case, load, variant) in enumerate(places):
            label = f"{case} at {load:g} · {variant}"
            speed_ups.append(expression(f"b{number} / v{number}", label=label, colour=self._colours[variant]))
            for name, identity in ((baseline, f"b{number}"), (variant, f"v{number}")):
                values = (self._experiment, name, case, f"{load:g}")
                speed_ups.append(self._row(tpot, values, "p50", name, label=label, identity=identity))
        service: list[Widget] = [
            bars(
                f"Whole service by load: {one.symbol}, mean over runs{_unit(one)}",
                [
                    self._row(
                        one,
                        (self._experiment, variant, f"{load:g}"),
                        "Average",
                        variant,
                        label=f"at {load:g} · {variant}",
                    )
                    for load in loads
                    for variant in self._variants
                ],
            )
            for one in series.SERVICE_BY_LOAD
        ]
        return _pairs(
            [bars("Speed-up by load: median TPOT of the baseline / of the variant", speed_ups), *service]
        )

    def exact(self, metrics: Sequence[Metric], test_cases: Sequence[str]) -> list[list[Widget]]:
        """One chart per metric of the exact lane, median; a second one, 90th percentile, where smaller is
        better.
        """
        charts: list[Widget] = []
        for definition, one in zip(metrics, series.exact(metrics), strict=True):
            for statistic in ("p50", "p90") if definition.better == "smaller" else ("p50",):
                rows = [
                    self._of(one, variant, case, statistic)
                    for case in test_cases
                    for variant in self._variants
                ]
                charts.append(bars(f"{one.symbol}, {statistic}{_unit(one)}", rows))
        for one in series.SERVICE:
            of_variants = [
                self._row(one, (self._experiment, variant), "Average", variant, label=variant)
                for variant in self._variants
            ]
            charts.append(bars(f"Whole service: {one.symbol}, mean over runs{_unit(one)}", of_variants))
        return _pairs(charts)

    def llmperf(self, test_cases: Sequence[str]) -> list[list[Widget]]:
        """One chart per published name, and the two derived series."""
        return _pairs(
            [
                bars(
                    f"LLMPerf {one.name}: {one.symbol}, p50{_unit(one)}",
                    [
                        self._row(one, (variant, case), "p50", variant, label=f"{case} · {variant}")
                        for case in test_cases
                        for variant in self._variants
                    ],
                )
                for one in series.LLMPERF
            ]
        )

    def _of(
        self,
        one: series.Series,
        variant: str,
        case: str,
        statistic: str,
        *,
        period: int = 300,
        identity: str | None = None,
    ) -> Row:
        """A series of one test case. One with an identity is there for an expression only."""
        values = (self._experiment, variant, case)
        return self._row(
            one, values, statistic, variant, label=f"{case} · {variant}", period=period, identity=identity
        )

    def _row(
        self,
        one: series.Series,
        values: tuple[str, ...],
        statistic: str,
        variant: str,
        *,
        label: str,
        period: int = 300,
        identity: str | None = None,
    ) -> Row:
        return metric(
            one.namespace,
            one.name,
            dict(zip(one.dimensions, values, strict=True)),
            statistic=statistic,
            label=label,
            period=period,
            colour=self._colours[variant],
            identity=identity,
            visible=identity is None,
        )


class _Machine:
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
            for members, colour in zip(groups, _cycle(_PALETTE, len(groups)), strict=True)
        ]
        errors = [self._now(one, "Sum") for one in (insights.EXECUTION_ERRORS, insights.ECC_EVENTS)]
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
                    [self._now(one) for one in insights.CORE_MEMORY],
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
                        self._workload(one, server.name)
                        for server in self._servers
                        for one in (insights.REPLICAS_READY, insights.REPLICAS_DESIRED)
                    ],
                ),
                lines(
                    "Container restarts",
                    [self._workload(insights.RESTARTS, server.name) for server in self._servers],
                ),
                lines(
                    "Why a service does not run, containers",
                    [self._workload(one, server.name) for server in self._servers for one in troubles],
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


def _pairs(charts: list[Widget]) -> list[list[Widget]]:
    return [charts[first : first + 2] for first in range(0, len(charts), 2)]


def _unit(one: series.Series) -> str:
    return {"Seconds": ", s", "Count/Second": ", 1/s", "Percent": ", %"}.get(one.unit, "")


def _cycle(values: tuple[str, ...], count: int) -> list[str]:
    return [values[index % len(values)] for index in range(count)]


def _refuse_too_many(
    metrics: Sequence[Metric],
    test_cases: Sequence[str],
    llmperf_test_cases: Sequence[str],
    variants: list[str],
    loads: int,
) -> None:
    per_widget = len(variants) * max(len(test_cases), len(llmperf_test_cases), len(get_args(Outcome)))
    # Speed-up draws two metrics and an expression for each bar.
    widest = max(per_widget, 3 * len(test_cases) * max(1, loads) * (len(variants) - 1))
    total = len(variants) * (
        len(test_cases) * (2 * len(metrics) + 5 + 3 * loads)
        + len(llmperf_test_cases) * len(series.LLMPERF)
        + loads * len(series.SERVICE_BY_LOAD)
    )
    if widest > MAX_METRICS_PER_WIDGET or total > MAX_METRICS_PER_DASHBOARD:
        raise ValueError(
            f"{len(variants)} variants and {len(test_cases)} test cases make {widest} series on one chart and"
            f" up to {total} on one dashboard; CloudWatch draws {MAX_METRICS_PER_WIDGET} and"
            f" {MAX_METRICS_PER_DASHBOARD}. Use fewer test cases or loads"
        )
