"""Which loads of an experiment need a compile of their own, and the cheapest set of compiles for all."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec.catalog.roofline import floor_of
from specdec.text import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdec.catalog.roofline import Floor
    from specdec.catalog.stacks import BatchGraphs
    from specdec.experiment.fields import Experiment, Variant

CLOSE = 0.03
"""A load needs no compile of its own where a larger batch makes its step at most this much longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiles:
    """The graphs that one variant's loads run in.

    Attributes:
        variant: its name.
        graphs: how its stack compiles batches, see ``ServingStack``.
        loads: requests in flight, ascending.
        runs_in: batch of the graph that each load runs in, as the experiment is.
        own: batch sizes that give every load a graph of its own.
        cheapest: fewest batch sizes with which, by the roofline, no load's step is more than 3% longer than
            in a graph of its own.
        starts: starts of a server that ``own`` and ``cheapest`` take, compiling included.
        hours: of the starts for ``cheapest``, shortest and longest.
        usd: of these hours, whole nodes; None without a price.
        says: in one sentence.
    """

    variant: str
    graphs: BatchGraphs
    loads: tuple[int, ...]
    runs_in: tuple[int, ...]
    own: tuple[int, ...]
    cheapest: tuple[int, ...]
    starts: tuple[int, int]
    hours: tuple[float, float]
    usd: tuple[float, float] | None
    says: str

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


def compiles(experiment: Experiment, region: str) -> tuple[Compiles, ...]:
    """The graphs of every variant; none for arrivals by rate, whose batch is not known beforehand."""
    benchmark = experiment.benchmark
    if benchmark.arrival != "closed":
        return ()
    loads = tuple(int(load) for load in benchmark.loads or (benchmark.concurrency,))
    return tuple(_compiles(experiment, region, variant, loads) for variant in experiment.variants)


def _compiles(experiment: Experiment, region: str, variant: Variant, loads: tuple[int, ...]) -> Compiles:
    stack, settings = experiment.stack, experiment.settings(variant)
    graphs = batches(stack.batch_graphs, settings.max_num_seqs)
    floor = floor_of(
        experiment.model(experiment.serving.target),
        experiment.instance,
        devices=settings.devices,
        tensor_parallel_degree=settings.tensor_parallel_degree,
        context=experiment.serving.max_model_len / 2,
    )
    own, few = tuple(sorted(set(loads))), cheapest(loads, floor, tokens=(variant.window or 0) + 1)
    # All buckets are compiled by one start.
    starts = (1, 1) if stack.batch_graphs == "buckets" else (len(own), len(few))
    hours = (starts[1] * stack.start_minutes[0] / 60, starts[1] * stack.start_minutes[1] / 60)
    price = experiment.price(region)
    usd = None if price is None else (hours[0] * price.usd_per_hour, hours[1] * price.usd_per_hour)
    runs_in = tuple(min(graph for graph in graphs if graph >= min(load, graphs[-1])) for load in loads)
    return Compiles(
        variant=variant.name,
        graphs=stack.batch_graphs,
        loads=loads,
        runs_in=runs_in,
        own=own,
        cheapest=few,
        starts=starts,
        hours=hours,
        usd=usd,
        says=_says(stack.batch_graphs, loads, runs_in, own, few, hours),
    )


def batches(graphs: BatchGraphs, most: int) -> tuple[int, ...]:
    """Batch sizes that a server compiles unless it is told otherwise, ascending.

    Args:
        graphs: how its stack compiles batches.
        most: max_num_seqs.
    """
    if graphs == "one":
        return (most,)
    return (*(2**power for power in range(most.bit_length()) if 2**power < most), most)


def cheapest(loads: Sequence[int], floor: Floor, *, tokens: int) -> tuple[int, ...]:
    """Fewest batch sizes that serve all loads nearly as well as one each, ascending: from the largest load
    down, a load that the last size makes more than 3% slower gets a size of its own.

    Args:
        loads: requests in flight.
        floor: of a step.
        tokens: that a step computes of each sequence.
    """
    sizes: list[int] = []
    for load in sorted(set(loads), reverse=True):
        if not sizes or floor.at(sizes[-1], tokens) > (1 + CLOSE) * floor.at(load, tokens):
            sizes.append(load)
    return tuple(reversed(sizes))


def _says(
    graphs: BatchGraphs,
    loads: Sequence[int],
    runs_in: Sequence[int],
    own: Sequence[int],
    few: Sequence[int],
    hours: tuple[float, float],
) -> str:
    apart = [
        f"load {load} in that for {graph}"
        for load, graph in zip(loads, runs_in, strict=True)
        if load != graph
    ]
    sizes = listed([str(size) for size in few])
    if graphs == "buckets":
        if not apart:
            return "every load has a graph of its own, and one start compiles them all"
        return (
            f"one start compiles a graph for each power of two: {listed(apart)} runs padded. With"
            f' {{"num_seqs_buckets": {list(own)}}} every load has its own'
        )
    if not apart:
        return "its load has the graph that is compiled"
    count = f"{len(own)} compile{'s' if len(own) > 1 else ''}"
    return (
        f"one graph is compiled, for max_num_seqs: {listed(apart)} takes as long as a full batch. Graphs of"
        f" their own take {count} (max_num_seqs = {listed([str(size) for size in own])}, each a deployment)."
        f" Cheapest by the roofline: max_num_seqs = {sizes}, {hours[0]:.1f} to {hours[1]:.1f} hours of"
        " compiling and loading"
    )
