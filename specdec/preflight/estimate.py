"""The estimate: what an hour costs, and what a token may cost, from the catalogue and published efficiencies
alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec.analysis.cost import usd_per_million_tokens
from specdec.analysis.roofline import limit_step
from specdec.benchmark import prompts
from specdec.catalog.prices import known_price
from specdec.preflight.cost import CostItem, NodeCost, items, kept_gigabytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specdec.experiment.fields import Experiment

EFFICIENCIES = (0.06, 0.46)
"""Lowest and highest share of the memory-bandwidth limit among published standard-decoding results on
trn2.48xlarge.

6 %: Qwen3-32B at 45 ms a token, AWS machine learning blog 2026-04-15. 46 %: Llama-3.1-405B at 37.9 ms, AWS
Neuron SDK tutorial.
"""

SPEED_UPS = (1.0, 3.0)
"""What speculation was published to bring for this setup: nothing for open prompts, threefold for structured
ones (same blog).
"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A range that published results span for one variant. A prediction, not a measurement.

    Attributes:
        variant: variant name.
        tpot: seconds per output token, best and worst.
        share_usd: US dollars per million output tokens for the variant's share of the node, best and worst;
            None without a price.
        node_usd: the same with the whole node paid.
    """

    variant: str
    tpot: tuple[float, float]
    share_usd: tuple[float, float] | None
    node_usd: tuple[float, float] | None

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


def node_cost(experiment: Experiment, region: str, *, asked_usd_per_hour: float | None = None) -> NodeCost:
    """Price of an accelerator node: the experiment's own, else AWS's answer, else what the catalogue has
    seen.
    """
    capacity = experiment.capacity
    if experiment.cost.node_usd_per_hour is not None:
        return NodeCost(experiment.cost.node_usd_per_hour, "cost.node_usd_per_hour of the experiment", "")
    if asked_usd_per_hour is not None and capacity.purchase != "capacity-block":
        return _told(asked_usd_per_hour, region)
    seen = known_price(capacity.instance_type, capacity.purchase, region)
    if seen is None:
        return NodeCost(None, "no price known; set cost.node_usd_per_hour", "")
    return NodeCost(seen.usd_per_hour, f"{seen.purchase} in {seen.region}: {seen.source}", seen.date or "")


def _told(usd_per_hour: float, region: str) -> NodeCost:
    return NodeCost(usd_per_hour, f"AWS pricing API, on demand, {region}", "now")


def estimate(
    experiment: Experiment, region: str, *, asked: Mapping[str, float] | None = None
) -> list[CostItem]:
    """The cost table of one region.

    Args:
        experiment: the experiment.
        region: one of its regions.
        asked: on-demand prices that AWS told, US dollars an hour, by instance type.
    """
    told = asked or {}
    system = told.get(experiment.capacity.system_instance_type)
    return items(
        experiment,
        node=node_cost(experiment, region, asked_usd_per_hour=told.get(experiment.capacity.instance_type)),
        system=None if system is None else _told(system, region),
        test_cases=len({prompt.test_case for prompt in prompts.load(experiment.benchmark.prompts)}),
        kept_gigabytes=kept_gigabytes(experiment),
    )


def predict(experiment: Experiment, region: str) -> list[Prediction]:
    """The span of published results, put on each variant's own memory-bandwidth limit."""
    serving, instance = experiment.serving, experiment.instance
    price = node_cost(experiment, region).usd_per_hour
    found: list[Prediction] = []
    for variant in experiment.variants:
        settings = experiment.settings(variant)
        devices = settings.devices
        sequences = min(settings.max_num_seqs, experiment.benchmark.concurrency)
        limit = limit_step(
            experiment.model(serving.target),
            instance,
            devices=devices,
            tensor_parallel_degree=settings.tensor_parallel_degree,
            sequences=sequences,
            context=serving.max_model_len / 2,
        )
        worst, best = (limit / share for share in EFFICIENCIES)
        if variant.window is not None:
            best = max(best / SPEED_UPS[1], limit / experiment.stack.convention.most(variant.window))
        node = (
            None
            if price is None
            else tuple(usd_per_million_tokens(price, sequences / tpot) for tpot in (best, worst))
        )
        share = None if node is None else tuple(usd * devices / instance.devices for usd in node)
        found.append(Prediction(variant.name, (best, worst), _pair(share), _pair(node)))
    return found


def _pair(values: tuple[float, ...] | None) -> tuple[float, float] | None:
    return None if values is None else (values[0], values[1])
