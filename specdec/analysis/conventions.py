"""How many tokens a step may emit at window k: it depends on who counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from specdec.runs.record import RunManifest

Floats = NDArray[np.float64]


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

    @property
    def smallest(self) -> int:
        """Smallest window that can emit more than one token per step."""
        return 1 + self.wasted

    def tokens(self, window: int, survival: Floats) -> Floats:
        """Expected tokens per step, ``1 + S_1 + ... + S_usable``.

        Args:
            window: num_speculative_tokens.
            survival: chance that proposal ``i`` and all before it are accepted, along the last axis from ``i
                = 1``; as long as the largest window needs. With constant acceptance ``a`` it is ``a**i``, and
                the sum is ``(1 - a**(k+1))/(1 - a)`` for ``textbook`` and ``(1 - a**k)/(1 - a)`` for
                ``nxdi-fused``.
        """
        total: Floats = 1 + survival[..., : self.usable(window)].sum(axis=-1)
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

_BY_NAME = {convention.name: convention for convention in (TEXTBOOK, NXDI_FUSED)}


def convention_of(manifest: RunManifest) -> Convention:
    """The convention of the services a run measured: the serving stack's; the textbook's for an engine on
    this machine.
    """
    from specdec.catalog.stacks import STACKS

    stack = STACKS.get(manifest.configuration.get("serving", {}).get("stack", ""))
    return TEXTBOOK if stack is None or is_local(manifest) else _BY_NAME[stack.convention]


def is_local(manifest: RunManifest) -> bool:
    """Whether the run measured an engine on the user's machine and not the accelerator: then no price and no
    roofline apply.

    A rehearsal names its engine or what it emulates in the environment; llama.cpp's server names itself.
    """
    named = any(manifest.environment.get(key) for key in ("engine", "emulated", "rehearsal"))
    return named or any(variant.get("engine") == "llamacpp" for variant in manifest.variants.values())
