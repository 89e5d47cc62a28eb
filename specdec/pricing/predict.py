"""What a token may take and cost before anything is measured: a range that published results span."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec.analysis.cost import usd_per_million_tokens
from specdec.catalog.roofline import limit_step

if TYPE_CHECKING:
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


def predict(experiment: Experiment, region: str) -> list[Prediction]:
    """The span of published results, put on each variant's own memory-bandwidth limit."""
    serving, instance = experiment.serving, experiment.instance
    price = experiment.price(region)
    predictions: list[Prediction] = []
    for variant in experiment.variants:
        settings = experiment.settings(variant)
        sequences = min(settings.max_num_seqs, experiment.benchmark.concurrency)
        limit = limit_step(
            experiment.model(serving.target),
            instance,
            devices=settings.devices,
            tensor_parallel_degree=settings.tensor_parallel_degree,
            sequences=sequences,
            context=serving.max_model_len / 2,
        )
        worst, best = (limit / share for share in EFFICIENCIES)
        if variant.window is not None:
            best = max(best / SPEED_UPS[1], limit / experiment.stack.convention.most(variant.window))
        node = share = None
        if price is not None:
            node = (
                usd_per_million_tokens(price.usd_per_hour, sequences / best),
                usd_per_million_tokens(price.usd_per_hour, sequences / worst),
            )
            part = settings.devices / instance.devices
            share = (node[0] * part, node[1] * part)
        predictions.append(Prediction(variant.name, (best, worst), share, node))
    return predictions
