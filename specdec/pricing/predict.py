"""The time and cost of a token before anything is measured: the range that published results span."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec.analysis.constant_acceptance import break_even
from specdec.analysis.cost import usd_per_million_tokens
from specdec.catalog.instances import INSTANCES
from specdec.catalog.roofline import limit_step
from specdec.catalog.speed_ups import speed_ups
from specdec.experiment.phases import phase_order

if TYPE_CHECKING:
    from specdec.catalog.chips import Instance
    from specdec.experiment.fields import Experiment
    from specdec.experiment.sections import Variant
    from specdec.pricing.workload import Workload

VERIFY_SECONDS = (0.0002, 0.0007)
"""What one more token in a verification adds on dense models: Neuron docs, vllm-neuron features guide
@cf2a407 (2026)."""

Range = tuple[float, float]
"""Best and worst."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A range that published results span for one variant. A prediction, not a measurement.

    Attributes:
        variant: variant name.
        tpot: seconds per output token, best and worst.
        share_usd: US dollars per million output tokens for the variant's share of its nodes, best and worst;
            None without a price.
        node_usd: the same with a whole node paid.
        break_even: constant acceptance at which the draft starts to pay, best and worst; None for the worst
            where it may never, and None as a whole without a draft.
    """

    variant: str
    tpot: Range
    share_usd: Range | None
    node_usd: Range | None
    break_even: tuple[float | None, float | None] | None

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


def efficiencies(instance: Instance) -> tuple[float, float, str]:
    """Lowest and highest share of the memory-bandwidth limit among published plain steps: of the instance,
    else of its chip, else of any; and which of these in words.
    """
    of_chip = [other for other in INSTANCES.values() if other.chip == instance.chip]
    for place, group in (
        (f"on {instance.type}", [instance]),
        (f"on {instance.chip}, none on {instance.type}", of_chip),
        (f"on other chips, none on {instance.chip}", list(INSTANCES.values())),
    ):
        shares = [share for other in group for share in other.shares]
        if shares:
            return min(shares), max(shares), place
    raise AssertionError("the catalogue has no published step")


def predict(experiment: Experiment, region: str) -> list[Prediction]:
    """The span of published results, put on each variant's own memory-bandwidth limit."""
    instance = experiment.instance
    price = experiment.price(region)
    predictions: list[Prediction] = []
    for variant in experiment.variants:
        settings = experiment.settings(variant)
        sequences = _sequences(experiment, variant)
        limit = _limit(experiment, variant, experiment.serving.target)
        lowest, highest, _ = efficiencies(instance)
        plain = (limit / highest, limit / lowest)
        tpot = plain
        if variant.mode is not None and variant.window is not None:
            rows = speed_ups(variant.mode, sequences)
            tpot = (plain[0] / max(row.high for row in rows), plain[1] / min(row.low for row in rows))
        node = share = None
        if price is not None:
            node = (
                usd_per_million_tokens(price.usd_per_hour, sequences / tpot[0]),
                usd_per_million_tokens(price.usd_per_hour, sequences / tpot[1]),
            )
            part = settings.devices / instance.devices
            share = (node[0] * part, node[1] * part)
        predictions.append(
            Prediction(variant.name, tpot, share, node, _break_even(experiment, variant, plain))
        )
    return predictions


def _sequences(experiment: Experiment, variant: Variant) -> int:
    return min(experiment.settings(variant).max_num_seqs, experiment.benchmark.concurrency)


def _limit(experiment: Experiment, variant: Variant, model: str) -> float:
    settings = experiment.settings(variant)
    return limit_step(
        experiment.model(model),
        experiment.instance,
        devices=settings.devices,
        tensor_parallel_degree=settings.tensor_parallel_degree,
        sequences=_sequences(experiment, variant),
        context=experiment.serving.max_model_len / 2,
    )


def step_costs(experiment: Experiment, variant: Variant, plain: Range) -> Range:
    """Time of a speculative step in plain steps, best and worst.

    At best a pass of the draft costs its share of the bytes read. At worst the part of a plain step that does
    not wait for bytes is spent on layers, and the draft has its share of these. Published steps of the mode
    widen the range.

    Args:
        experiment: a checked experiment.
        variant: one of its variants, with a draft.
        plain: seconds per plain step, best and worst.
    """
    if variant.draft is None or variant.window is None or variant.mode is None:
        raise ValueError(f"{variant.name} has no draft")
    target, draft = experiment.model(experiment.serving.target), experiment.model(variant.draft)
    by_bytes = _limit(experiment, variant, draft.id) / _limit(experiment, variant, target.id)
    lowest, _, _ = efficiencies(experiment.instance)
    by_layers = lowest * by_bytes + (1 - lowest) * draft.layers / target.layers
    support = experiment.stack.support(variant.mode)
    passes = 1 if support is not None and support.whole_block else variant.window
    costs = [
        1 + passes * min(by_bytes, by_layers) + variant.window * VERIFY_SECONDS[0] / plain[1],
        1 + passes * max(by_bytes, by_layers) + variant.window * VERIFY_SECONDS[1] / plain[0],
        *(
            1 + (row.step_cost - 1) * variant.window / row.window
            for row in speed_ups(variant.mode, _sequences(experiment, variant))
            if row.step_cost is not None
        ),
    ]
    return min(costs), max(costs)


def _break_even(
    experiment: Experiment, variant: Variant, plain: Range
) -> tuple[float | None, float | None] | None:
    if variant.draft is None or variant.window is None:
        return None
    best, worst = step_costs(experiment, variant, plain)
    convention = experiment.stack.convention
    return (
        break_even(convention, variant.window, cost=best),
        break_even(convention, variant.window, cost=worst),
    )


def run_hours(experiment: Experiment, workload: Workload, predictions: list[Prediction]) -> Range:
    """Hours from the nodes' start to the end of one run of the exact lane, best and worst: the first start of
    the servers, compiling included, then every request; in phases, also every later start of a server.
    """
    benchmark = experiment.benchmark
    requests = workload.prompts * benchmark.repeats
    starts = experiment.stack.start_minutes
    hours: list[float] = []
    for end in (0, 1):
        seconds: list[float] = []
        for variant, prediction in zip(experiment.variants, predictions, strict=True):
            if benchmark.arrival != "closed":
                loads = benchmark.loads or (benchmark.rate or 1.0,)
                seconds.append(sum(requests / load for load in loads))
                continue
            most = experiment.settings(variant).max_num_seqs
            loads = benchmark.loads or (float(benchmark.concurrency),)
            answer = benchmark.output_tokens * prediction.tpot[end]
            # The baseline is asked once more in some blocks.
            times = 1 + benchmark.self_check_share * (variant.name == experiment.baseline.name)
            seconds.append(sum(times * requests * answer / min(load, most) for load in loads))
        hours.append(starts[end] / 60 + _measuring(experiment, seconds, end) / 3600)
    return hours[0], hours[1]


def _measuring(experiment: Experiment, seconds: list[float], end: int) -> float:
    """Seconds of a run after the first start of its first servers.

    Args:
        experiment: a checked experiment.
        seconds: that each variant gets requests for, all its repeats together.
        end: 0 for the best case, 1 for the worst.
    """
    benchmark, stack = experiment.benchmark, experiment.stack
    if benchmark.schedule == "concurrent":
        return max(seconds)
    if benchmark.schedule == "alternate":
        return sum(seconds)
    plain = experiment.variants.index(experiment.baseline)
    others = [index for index in range(len(seconds)) if index != plain]
    order = [([plain, *others])[place] for place in phase_order(len(seconds), benchmark.repeats)]
    # The first start of the others compiles; a later one loads what was compiled.
    first, again = len(others) * stack.start_minutes[end], stack.restart_minutes[end]
    restarts = (len(order) - 1 - len(others)) * again
    return sum(seconds[index] / benchmark.repeats for index in order) + 60 * (first + restarts)
