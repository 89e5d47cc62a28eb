"""The first screen of the experiment's dashboard: the figures that decisions rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from specdec.metrics.definition import DIMENSIONS, NAMESPACE
from specdec.metrics.goodput import GOODPUT
from specdec.metrics.system_throughput import SYSTEM_THROUGHPUT
from specdec.metrics.tpot import TPOT
from specdec.publish import series
from trainium_constructs import container_insights as insights
from trainium_constructs.dashboard_body import FULL, Row, Widget, bars, expression, numbers, trend

if TYPE_CHECKING:
    from trainium_constructs.benchmark_charts import BenchmarkCharts

HOUR = 3600
HEIGHT = 18
"""Rows of the grid that a screen of 1080 lines shows under the console's own head."""


class DecisionCharts:
    """Speed-up by class over runs and over load, parity, goodput, and money.

    Args:
        charts: rows and colours of the experiment's variants.
        test_cases: test case to class of prompts.
        shares: variant to the share of an accelerator node that it has.
        cluster_name: whose nodes are paid for.
        system_nodes: nodes that are not accelerator nodes.
        node_usd_per_hour: price of an accelerator node; None leaves money out.
    """

    def __init__(
        self,
        charts: BenchmarkCharts,
        test_cases: Mapping[str, str],
        *,
        shares: Mapping[str, float],
        cluster_name: str,
        system_nodes: int,
        node_usd_per_hour: float | None,
    ) -> None:
        self._charts = charts
        self._cases = test_cases
        self._shares = shares
        self._cluster = {"ClusterName": cluster_name}
        self._system_nodes = system_nodes
        self._price = node_usd_per_hour
        self._others = charts.variants[1:]

    def screen(self, loads: Sequence[float]) -> list[list[Widget]]:
        """Numbers above, trends below."""
        figures = [
            ("Speed-up, mean over test cases", self._speed_ups(300, by_class=False)),
            ("Parity, lowest test case, %", self._parity(300)),
            ("Goodput, requests per second", self._service(GOODPUT.name, 300)),
        ]
        trends = [
            ("Parity over runs, lowest test case, %", self._parity(HOUR)),
            ("Goodput over runs, requests per second", self._service(GOODPUT.name, HOUR)),
        ]
        if self._price is not None:
            figures.append(("USD per million output tokens", self._token_cost(300)))
            trends.append(("USD per million output tokens over runs", self._token_cost(HOUR)))
        wide, third = FULL // (len(figures) + (self._price is not None)), FULL // len(trends)
        money = [self._idle(wide)] if self._price is not None else []
        over_runs = self._speed_ups(HOUR, by_class=True)
        second = (
            bars("Speed-up by load", self._by_load(loads), height=5)
            if loads
            else trend(
                "Output tokens per second over runs", self._service(SYSTEM_THROUGHPUT.name, HOUR), height=5
            )
        )
        return [
            [*(numbers(title, rows, width=wide) for title, rows in figures), *money],
            [trend("Speed-up by class over runs", over_runs, height=5), second],
            [trend(title, rows, width=third, height=5) for title, rows in trends],
        ]

    def _speed_ups(self, period: int, *, by_class: bool) -> list[Row]:
        """Mean of the speed-ups of each class, or of all test cases, per variant."""
        (tpot,) = series.exact([TPOT])
        groups: dict[str, list[str]] = {}
        for case, prompt_class in self._cases.items():
            groups.setdefault(prompt_class if by_class else "", []).append(case)
        baseline = self._charts.variants[0]
        rows: list[Row] = []
        for number, case in enumerate(self._cases):
            rows.append(self._charts.of(tpot, baseline, case, "p50", period=period, identity=f"b{number}"))
        for place, variant in enumerate(self._others):
            ids = {case: f"s{place}_{number}" for number, case in enumerate(self._cases)}
            for number, (case, identity) in enumerate(ids.items()):
                name = f"v{place}_{number}"
                rows.append(self._charts.of(tpot, variant, case, "p50", period=period, identity=name))
                rows.append(
                    expression(
                        f"b{number} / {name}", label=case, period=period, identity=identity, visible=False
                    )
                )
            for prompt_class, members in groups.items():
                mean = f"AVG([{', '.join(ids[case] for case in members)}])"
                label = " · ".join(part for part in (prompt_class, variant) if part)
                rows.append(
                    expression(mean, label=label, period=period, colour=self._colour(variant, by_class))
                )
        return rows

    def _colour(self, variant: str, by_class: bool) -> str | None:
        """The variant's own; with several classes, CloudWatch tells the lines apart."""
        return None if by_class else self._charts.colours[variant]

    def _parity(self, period: int) -> list[Row]:
        rows: list[Row] = []
        for place, variant in enumerate(self._others):
            ids = [f"p{place}_{number}" for number, _ in enumerate(self._cases)]
            for case, identity in zip(self._cases, ids, strict=True):
                rows.append(
                    self._charts.of(series.PARITY, variant, case, "Minimum", period=period, identity=identity)
                )
            lowest = f"MIN([{', '.join(ids)}])"
            rows.append(
                expression(lowest, label=variant, period=period, colour=self._charts.colours[variant])
            )
        return rows

    def _service(self, name: str, period: int) -> list[Row]:
        (time_series,) = (time_series for time_series in series.SERVICE if time_series.name == name)
        return [
            self._charts.row(
                time_series,
                (self._charts.experiment, variant),
                "Average",
                variant,
                label=variant,
                period=period,
            )
            for variant in self._charts.variants
        ]

    def _token_cost(self, period: int) -> list[Row]:
        """Price of the variant's share of a node over the tokens that it gives in the same time."""
        assert self._price is not None
        (time_series,) = (
            time_series for time_series in series.SERVICE if time_series.name == SYSTEM_THROUGHPUT.name
        )
        rows: list[Row] = []
        for place, variant in enumerate(self._charts.variants):
            values = (self._charts.experiment, variant)
            rows.append(
                self._charts.row(
                    time_series,
                    values,
                    "Average",
                    variant,
                    label=variant,
                    period=period,
                    identity=f"t{place}",
                )
            )
            usd = self._price * self._shares[variant] * 1e6 / HOUR
            rows.append(
                expression(
                    f"{usd:.6g} / t{place}",
                    label=variant,
                    period=period,
                    colour=self._charts.colours[variant],
                )
            )
        return rows

    def _by_load(self, loads: Sequence[float]) -> list[Row]:
        """The speed-up of each class at each load: the middle of its test cases' speed-ups is their mean."""
        (tpot,) = (time_series for time_series in series.BY_LOAD if time_series.name == TPOT.name)
        rows: list[Row] = []
        number = 0
        for prompt_class in dict.fromkeys(self._cases.values()):
            for load in loads:
                for variant in self._others:
                    ids: list[str] = []
                    for case in (case for case, own in self._cases.items() if own == prompt_class):
                        for name, of in (("b", self._charts.variants[0]), ("v", variant)):
                            values = (self._charts.experiment, of, case, f"{load:g}")
                            rows.append(
                                self._charts.row(
                                    tpot, values, "p50", of, label=case, identity=f"{name}{number}"
                                )
                            )
                        ratio = f"b{number} / v{number}"
                        ids.append(f"s{number}")
                        rows.append(expression(ratio, label=case, identity=ids[-1], visible=False))
                        number += 1
                    label = f"{prompt_class} at {load:g} · {variant}"
                    mean = f"AVG([{', '.join(ids)}])"
                    rows.append(expression(mean, label=label, colour=self._charts.colours[variant]))
        return rows

    def _idle(self, width: int) -> Widget:
        """Spend on accelerator nodes in the time range, and the part of it without a measured request."""
        nodes = insights.NODE_COUNT.row(
            self._cluster, statistic="Maximum", period=300, identity="nodes", visible=False
        )
        beyond = insights.beyond(self._system_nodes)
        schema = ",".join([NAMESPACE, *sorted(DIMENSIONS)])
        wanted = f'MetricName="{TPOT.name}" Experiment="{self._charts.experiment}"'
        measured = f"SUM(SEARCH('{{{schema}}} {wanted}', 'SampleCount', 300))"
        usd = f"PERIOD(nodes) / {HOUR} * {self._price:g}"
        rows = [
            nodes,
            expression(measured, label="measured requests", identity="measured", visible=False),
            expression(f"RUNNING_SUM({beyond}) * {usd}", label="on accelerator nodes"),
            expression(
                f"RUNNING_SUM(IF(FILL(measured, 0) > 0, 0, {beyond})) * {usd}",
                label="of it while nothing was measured",
            ),
        ]
        return numbers("USD spent in the time range", rows, width=width, whole_range=False)
