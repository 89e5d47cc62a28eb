"""How many tokens a step may emit at window k: it depends on the serving stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Convention:
    """Step arithmetic of a serving stack.

    Attributes:
        name: ``textbook`` or ``nxdi-fused``.
        wasted: proposals of each step that are never used.
        source: where this was read.
    """

    name: str
    wasted: int
    source: str

    def usable(self, window: int) -> int:
        """Proposals that can be accepted in one step; a step emits one token more than it accepts."""
        return window - self.wasted

    def most(self, window: int) -> int:
        """Most tokens that one step can emit."""
        return self.usable(window) + 1

    @property
    def smallest(self) -> int:
        """Smallest window that can emit more than one token per step."""
        return 1 + self.wasted

    @property
    def limit(self) -> str:
        """Most tokens per step in words: ``k`` or ``k + 1``."""
        return "k" if self.wasted else "k + 1"

    def tokens(self, window: int, survival: NDArray[np.float64]) -> NDArray[np.float64]:
        """Expected tokens per step, ``1 + S_1 + ... + S_usable``.

        Args:
            window: num_speculative_tokens.
            survival: chance that proposal ``i`` and all before it are accepted, along the last axis from ``i
                = 1``; as long as the largest window needs. With constant acceptance ``a`` it is ``a**i``, and
                the sum is ``(1 - a**(k+1))/(1 - a)`` for ``textbook`` and ``(1 - a**k)/(1 - a)`` for
                ``nxdi-fused``.
        """
        total: NDArray[np.float64] = 1 + survival[..., : self.usable(window)].sum(axis=-1)
        return total


TEXTBOOK = Convention(
    name="textbook",
    wasted=0,
    source=(
        "Leviathan et al., Fast Inference from Transformers via Speculative Decoding (arXiv 2211.17192),"
        " section 3"
    ),
)
"""k proposals, and one token of the target's own: up to k + 1 tokens per step."""

NXDI_FUSED = Convention(
    name="nxdi-fused",
    wasted=1,
    source=(
        "NxD Inference v0.6.10598, models/model_base.py, fused token generation: k draft passes, k - 1"
        " candidates compared"
    ),
)
"""The draft runs k times, the last proposal is not used: up to k tokens per step."""
