"""How close a decode step comes to the memory bandwidth of its devices."""

from __future__ import annotations

from specdec.analysis.verdict import Roofline

TUNED = 0.15
"""Share of the roof that Neuron's own Llama-3.3-70B reaches on a whole trn2.48xlarge: 19.6 ms a step (Neuron
docs, NxD Inference tutorial with speculation, llama70b_perf_comparison.csv). A plain variant far below it has
something else in its way."""


def roofline(variant: str, *, limit: float, tpot: float, speculative: bool) -> Roofline:
    """Compares a variant's time per token with the limit of a plain step.

    Args:
        variant: its name.
        limit: see ``specdec.catalog.roofline.limit_step``.
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
