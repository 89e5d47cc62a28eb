"""Checks of an experiment that has no way to the internet, or mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from specdec.errors import Mistake
from specdec.experiment.registry import check

if TYPE_CHECKING:
    from specdec.experiment.fields import Benchmark, Cluster, Network, Placement


@check
def _mirrors(
    network: Network, benchmark: Benchmark, placement: dict[str, Placement], regions: tuple[str, ...]
) -> Iterator[Mistake]:
    places = [placement[region] for region in regions if region in placement]
    if network.proxy is None and network.no_proxy:
        yield Mistake(
            "network.no_proxy", list(network.no_proxy), "has no effect without a proxy", "Remove it"
        )
    if network.internet:
        return
    needed = {"image_prefix": "images", "python_index": "the benchmark pod's packages"}
    if not all(place.cluster_has_neuron for place in places):
        needed["neuron_chart"] = "Neuron's chart"
    if not all(place.bucket for place in places):
        needed["model_hub"] = "models, unless placement.<region>.bucket holds them already"
    if "llmperf" in benchmark.lanes:
        needed |= {"llmperf_source": "LLMPerf", "llmperf_tokenizer": "LLMPerf's tokenizer"}
    for name, what in needed.items():
        if getattr(network, name) is None:
            yield Mistake(
                f"network.{name}",
                None,
                "is missing, and network.internet is false",
                f"Name a mirror of {what}",
            )


@check
def _no_public_endpoint(network: Network, cluster: Cluster) -> Iterator[Mistake]:
    if not network.internet and cluster.public_access_cidrs:
        yield Mistake(
            "cluster.public_access_cidrs",
            list(cluster.public_access_cidrs),
            "opens the API to the internet, and network.internet is false",
            "Remove it",
        )
