"""How close a decode step comes to the memory bandwidth of its devices."""

from __future__ import annotations

from specdec.analysis.verdict import Roofline
from specdec.catalog.chips import Instance
from specdec.catalog.models import Model

TUNED = 0.15
"""Share of the roof that Neuron's own Llama-3.3-70B reaches on a whole trn2.48xlarge: 19.6 ms a step (Neuron
docs, NxD Inference tutorial with speculation, llama70b_perf_comparison.csv). A plain variant far below it has
something else in its way."""


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


def roofline(variant: str, *, limit: float, tpot: float, speculative: bool) -> Roofline:
    """Compares a variant's time per token with the limit of a plain step.

    Args:
        variant: its name.
        limit: see ``limit_step``.
        tpot: seconds per token, mean over the test cases.
        speculative: whether one step may emit several tokens.
    """
    share = limit / tpot
    if speculative:
        says = (
            f"{share:.0%} of what one plain step per token allows; above 100% is possible, since one read"
            " serves several tokens"
        )
    elif share < TUNED / 2:
        says = (
            f"{share:.0%} of the memory roof, where Neuron's own 70B model reaches {TUNED:.0%}: tune the"
            " baseline before crediting speculation with the difference"
        )
    else:
        says = f"{share:.0%} of the memory roof"
    return Roofline(variant=variant, limit_tpot=limit, tpot=tpot, share=share, says=says)
