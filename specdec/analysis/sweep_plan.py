"""A sweep where windows are expensive: which to compile, in which order, and what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec.analysis.advice import WindowAdvice, WindowPoint
from specdec.catalog.prices import NodePrice

COMPILE_HOURS = 0.75
"""Hours to compile and load one more window, unless the user knows better. Neuron's vLLM guide names 15
minutes for a model of 15 GB; the target here has 65 GB and is compiled together with its draft. No public
figure for this pair was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStep:
    """One window of the plan.

    Attributes:
        window: to compile and measure.
        low, high: speed-up there, 5% and 95% ends of the prediction.
        node_hours: compile, load and benchmark, accumulated over the plan.
        usd: the same in money, whole node; None without a price.
    """

    window: int
    low: float
    high: float
    node_hours: float
    usd: float | None


def plan_sweep(
    mix: WindowAdvice,
    *,
    bench_hours: float,
    compile_hours: float = COMPILE_HOURS,
    price: NodePrice | None = None,
    most: int = 5,
) -> tuple[SweepStep, ...]:
    """Windows worth measuring after those that are, most telling first.

    A window is worth it if the top of its range reaches the bottom of the best one's: all others are beaten
    already, as far as the model goes. The one to confirm comes first, then by the top of the range.

    Args:
        mix: advice for the mix of test cases.
        bench_hours: of one run of the benchmark on one variant.
        compile_hours: to compile and load one window.
        price: of the node.
        most: windows to name.
    """
    new = [point for point in mix.curve if point.window not in mix.measured_windows]
    floor = max((mix.baseline_tpot / point.high for point in mix.curve), default=1.0)
    worth = [point for point in new if mix.baseline_tpot / point.low >= max(1.0, floor)]
    ordered: Sequence[WindowPoint] = sorted(worth, key=lambda point: (point.window != mix.confirm, point.low))
    return tuple(
        SweepStep(
            window=point.window,
            low=mix.baseline_tpot / point.high,
            high=mix.baseline_tpot / point.low,
            node_hours=(hours := number * (compile_hours + bench_hours)),
            usd=hours * price.usd_per_hour if price else None,
        )
        for number, point in enumerate(ordered[:most], 1)
    )
