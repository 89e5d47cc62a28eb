"""How close a decode step comes to the memory bandwidth of its devices."""

from __future__ import annotations

from specdec.analysis.verdict import Roofline
from specdec.catalog.chips import Instance


def roofline(variant: str, *, instance: Instance, limit: float, tpot: float, speculative: bool) -> Roofline:
    """Compares a variant's time per token with the limit of a plain step.

    Args:
        variant: its name.
        instance: accelerator instance; if a plain variant is far below what half of its published services
            reach, something else limits it.
        limit: see ``specdec.catalog.roofline.limit_step``.
        tpot: seconds per token, mean over the test cases.
        speculative: whether one step may emit several tokens.
    """
    share, tuned = limit / tpot, instance.tuned_share
    if speculative:
        says = (
            f"{share:.0%} of what one plain step per token allows; above 100% is possible, since one read"
            " serves several tokens"
        )
    elif tuned is not None and share < tuned / 2:
        says = (
            f"{share:.0%} of the memory roof, where half of the published services on {instance.type} reach"
            f" {tuned:.0%}: tune the"
            " baseline before crediting speculation with the difference"
        )
    else:
        says = f"{share:.0%} of the memory roof"
    return Roofline(variant=variant, limit_tpot=limit, tpot=tpot, share=share, says=says)
