"""Charts of what the benchmark publishes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import get_args

from specdec.metrics.definition import Metric
from specdec.metrics.goodput import GOODPUT
from specdec.metrics.tpot import TPOT
from specdec.publish import series
from specdec.runs.record import Outcome
from trainium_constructs.dashboard_body import Row, Widget, bars, expression, metric, trend

PALETTE = ("#7f7f7f", "#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b")
"""One colour per variant, the baseline in grey."""


class BenchmarkCharts:
    """Charts of what the benchmark publishes: one bar per test case and variant, over the time range
    shown.
    """

    def __init__(self, experiment: str, variants: list[str]) -> None:
        self.experiment = experiment
        self.variants = variants
        self.colours = dict(zip(variants, cycle(PALETTE, len(variants)), strict=True))

    def answer(self, test_cases: Collection[str]) -> list[list[Widget]]:
        """Speed-up and parity: what decides."""
        (tpot,) = series.exact([TPOT])
        baseline, *others = self.variants
        speed_ups: list[Row] = []
        for number, (case, variant) in enumerate(
            (case, variant) for case in test_cases for variant in others
        ):
            speed_ups += [
                expression(
                    f"b{number} / v{number}", label=f"{case} · {variant}", colour=self.colours[variant]
                ),
                self.of(tpot, baseline, case, "p50", identity=f"b{number}"),
                self.of(tpot, variant, case, "p50", identity=f"v{number}"),
            ]
        parity = [
            self.of(series.PARITY, variant, case, "Minimum") for case in test_cases for variant in others
        ]
        by_hour = [
            self.of(tpot, variant, case, "p50", period=3600)
            for case in test_cases
            for variant in self.variants
        ]
        outcomes = [
            self.row(
                series.REQUESTS,
                (self.experiment, variant, outcome),
                "Sum",
                variant,
                label=f"{outcome} · {variant}",
            )
            for outcome in get_args(Outcome)
            for variant in self.variants
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

    def over_load(self, test_cases: Collection[str], loads: Sequence[float]) -> list[list[Widget]]:
        """Speed-up and the whole service at each load."""
        (tpot,) = (time_series for time_series in series.BY_LOAD if time_series.name == TPOT.name)
        baseline, *others = self.variants
        speed_ups: list[Row] = []
        places = [(case, load, variant) for case in test_cases for load in loads for variant in others]
        for number, (case, load, variant) in enumerate(places):
            label = f"{case} at {load:g} · {variant}"
            speed_ups.append(expression(f"b{number} / v{number}", label=label, colour=self.colours[variant]))
            for name, identity in ((baseline, f"b{number}"), (variant, f"v{number}")):
                values = (self.experiment, name, case, f"{load:g}")
                speed_ups.append(self.row(tpot, values, "p50", name, label=label, identity=identity))
        service: list[Widget] = [
            bars(
                f"Whole service by load: {time_series.symbol}, mean over runs{unit(time_series)}",
                [
                    self.row(
                        time_series,
                        (self.experiment, variant, f"{load:g}"),
                        "Average",
                        variant,
                        label=f"at {load:g} · {variant}",
                    )
                    for load in loads
                    for variant in self.variants
                ],
            )
            for time_series in series.SERVICE_BY_LOAD
        ]
        return pairs(
            [bars("Speed-up by load: median TPOT of the baseline / of the variant", speed_ups), *service]
        )

    def exact(self, metrics: Sequence[Metric], test_cases: Collection[str]) -> list[list[Widget]]:
        """One chart per metric of the exact lane, median; a second one, 90th percentile, where smaller is
        better.
        """
        charts: list[Widget] = []
        for definition, time_series in zip(metrics, series.exact(metrics), strict=True):
            for statistic in ("p50", "p90") if definition.better == "smaller" else ("p50",):
                rows = [
                    self.of(time_series, variant, case, statistic)
                    for case in test_cases
                    for variant in self.variants
                ]
                charts.append(bars(f"{time_series.symbol}, {statistic}{unit(time_series)}", rows))
        for time_series in series.SERVICE:
            of_variants = [
                self.row(time_series, (self.experiment, variant), "Average", variant, label=variant)
                for variant in self.variants
            ]
            charts.append(
                bars(f"Whole service: {time_series.symbol}, mean over runs{unit(time_series)}", of_variants)
            )
        return pairs(charts)

    def llmperf(self, test_cases: Collection[str]) -> list[list[Widget]]:
        """One chart per published name, and the two derived series."""
        return pairs(
            [
                bars(
                    f"LLMPerf {time_series.name}: {time_series.symbol}, p50{unit(time_series)}",
                    [
                        self.row(time_series, (variant, case), "p50", variant, label=f"{case} · {variant}")
                        for case in test_cases
                        for variant in self.variants
                    ],
                )
                for time_series in series.LLMPERF
            ]
        )

    def of(
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
        values = (self.experiment, variant, case)
        return self.row(
            one, values, statistic, variant, label=f"{case} · {variant}", period=period, identity=identity
        )

    def row(
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
        """A series by the values of its dimensions. One with an identity is there for an expression only."""
        return metric(
            one.namespace,
            one.name,
            dict(zip(one.dimensions, values, strict=True)),
            statistic=statistic,
            label=label,
            period=period,
            colour=self.colours[variant],
            identity=identity,
            visible=identity is None,
        )


def pairs(charts: list[Widget]) -> list[list[Widget]]:
    """Charts in rows of two."""
    return [charts[first : first + 2] for first in range(0, len(charts), 2)]


def unit(one: series.Series) -> str:
    """What stands behind a title: the unit, where there is one."""
    rate = "requests/s" if one.name == GOODPUT.name else "tokens/s"
    return {"Seconds": ", s", "Count/Second": f", {rate}", "Percent": ", %"}.get(one.unit, "")


def cycle(values: tuple[str, ...], count: int) -> list[str]:
    """As many values, from the first again where they are too few."""
    return [values[index % len(values)] for index in range(count)]
