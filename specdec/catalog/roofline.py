"""The memory-bandwidth floor of a decode step."""

from __future__ import annotations

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
