"""The floor of a decode step: what its devices must read, and compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec.catalog.chips import Instance
    from specdec.catalog.models import Model


def limit_step(
    model: Model,
    instance: Instance,
    *,
    devices: int,
    tensor_parallel_degree: int,
    sequences: float,
    context: float,
) -> float:
    """Seconds in which the devices can read what one plain step needs: all weights but the input embedding,
    and the KV cache.

    KV heads are copied when the tensor parallel degree is above their number. Compute, collectives and the
    host are left out, so this is a floor.

    Args:
        model: target model, in bf16.
        instance: accelerator instance.
        devices: chips the variant spans.
        tensor_parallel_degree: logical cores the variant spans.
        sequences: sequences decoded together.
        context: mean tokens in a sequence's cache.
    """
    copies = max(1, tensor_parallel_degree // model.kv_heads)
    cache = model.kv_bytes_per_token() * copies * context * sequences
    return (model.step_bytes() + cache) / (devices * instance.hbm_bytes_per_second_per_device)


@dataclass(frozen=True, slots=True)
class Floor:
    """The least that a step can take: the larger of reading and computing (Williams et al., Roofline, 2009).

    Attributes:
        weights: seconds to read all weights of a step once.
        cache: seconds to read the KV cache of one sequence.
        compute: seconds to compute one token of one sequence.
    """

    weights: float = 0.0
    cache: float = 0.0
    compute: float = 0.0

    def at(self, sequences: float, tokens: float) -> float:
        """Seconds of a step of so many sequences, with so many tokens of each."""
        return max(self.weights + self.cache * sequences, self.compute * sequences * tokens)


def floor_of(
    model: Model, instance: Instance, *, devices: int, tensor_parallel_degree: int, context: float
) -> Floor:
    """The floor of a model's steps on some devices; arguments as in ``limit_step``.

    A token costs two operations per weight that is read, and a bf16 weight has two bytes: as many operations
    as bytes. Attention is left out, so this is a floor.
    """

    def reading(sequences: float) -> float:
        return limit_step(
            model,
            instance,
            devices=devices,
            tensor_parallel_degree=tensor_parallel_degree,
            sequences=sequences,
            context=context,
        )

    return Floor(
        weights=reading(0),
        cache=reading(1) - reading(0),
        compute=model.step_bytes() / (devices * instance.bf16_flops_per_device),
    )
