"""Two dashboards: the experiment's question, and the machine it runs on.

Every chart is made from a series definition: ``specdec.metrics`` and ``specdec.publish.series`` for what the
benchmark publishes, ``container_insights`` for what AWS emits. No metric name is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, get_args

from aws_cdk import Aws
from constructs import Construct

from specdec.metrics.definition import Metric
from specdec.publish import series
from specdec.runs.record import Outcome
from trainium_constructs import dashboard_texts as texts
from trainium_constructs.benchmark_charts import BenchmarkCharts
from trainium_constructs.dashboard_body import alarm_states, dashboard, text
from trainium_constructs.decision_charts import DecisionCharts
from trainium_constructs.machine_charts import MachineCharts

if TYPE_CHECKING:
    from trainium_constructs.alarms import Alarms
    from trainium_constructs.cluster import AnyCluster
    from trainium_constructs.node_groups import SystemNodes
    from trainium_constructs.trainium_nodes import TrainiumNodes
    from trainium_constructs.workloads import Workloads

MAX_METRICS_PER_WIDGET = 500
MAX_METRICS_PER_DASHBOARD = 2500
"""CloudWatch service quotas,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html
"""


class Dashboards(Construct):
    """The dashboards of one experiment in one region.

    Args:
        scope: parent.
        id: construct id.
        experiment: experiment name, the value of the Experiment dimension.
        name: of the first dashboard; the second is ``<name>-machine``. Dashboard names are unique in an
            account, so it contains the region.
        cluster: the cluster.
        system_nodes: the nodes that are not accelerator nodes.
        accelerators: the accelerator nodes.
        workloads: the servers.
        alarms: shown with their state.
        metrics: the metrics of the exact lane.
        test_cases: test cases of the exact lane, each with its class of prompts.
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
        name: str,
        cluster: AnyCluster,
        system_nodes: SystemNodes,
        accelerators: TrainiumNodes,
        workloads: Workloads,
        alarms: Alarms,
        metrics: Sequence[Metric],
        test_cases: Mapping[str, str],
        llmperf_test_cases: Sequence[str] = (),
        loads: Sequence[float] = (),
        node_usd_per_hour: float | None = None,
    ) -> None:
        super().__init__(scope, id)
        variants = [server.variant for server in workloads.servers]
        _refuse_too_many(metrics, test_cases, llmperf_test_cases, variants, len(loads))
        charts = BenchmarkCharts(experiment, variants)
        decision = DecisionCharts(
            charts,
            test_cases,
            shares={server.variant: server.devices / accelerators.devices for server in workloads.servers},
            cluster_name=cluster.name,
            system_nodes=system_nodes.count,
            node_usd_per_hour=node_usd_per_hour,
        )
        dashboard(
            self,
            "Experiment",
            name=name,
            shows="P7D",
            rows=[
                [text(texts.FIRST, 3)],
                *decision.screen(loads),
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
        machine = MachineCharts(cluster.name, workloads)
        dashboard(
            self,
            "Machine",
            name=f"{name}-machine",
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


def _refuse_too_many(
    metrics: Sequence[Metric],
    test_cases: Sized,
    llmperf_test_cases: Sized,
    variants: list[str],
    loads: int,
) -> None:
    per_widget = len(variants) * max(len(test_cases), len(llmperf_test_cases), len(get_args(Outcome)))
    # Speed-up draws two metrics and an expression for each bar, and a mean for each class.
    widest = max(per_widget, 4 * len(test_cases) * max(1, loads) * (len(variants) - 1))
    # Of each test case and variant: every metric twice, five and six more in the two speed-ups and parities,
    # and three rows of each speed-up by load.
    total = len(variants) * (
        len(test_cases) * (2 * len(metrics) + 11 + 6 * loads)
        + len(llmperf_test_cases) * len(series.LLMPERF)
        + loads * len(series.SERVICE_BY_LOAD)
    )
    if widest > MAX_METRICS_PER_WIDGET or total > MAX_METRICS_PER_DASHBOARD:
        raise ValueError(
            f"{len(variants)} variants and {len(test_cases)} test cases make {widest} series on one chart and"
            f" up to {total} on one dashboard; CloudWatch draws {MAX_METRICS_PER_WIDGET} and"
            f" {MAX_METRICS_PER_DASHBOARD}. Use fewer test cases or loads"
        )
