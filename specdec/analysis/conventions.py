"""Which step arithmetic holds for a run: that of the serving stack it measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from specdec.catalog.conventions import TEXTBOOK, Convention
from specdec.catalog.images import STACKS
from specdec.catalog.models import same_model

if TYPE_CHECKING:
    from specdec.runs.manifest import RunManifest

Floats = NDArray[np.float64]


def convention_of(manifest: RunManifest) -> Convention:
    """The convention of the services a run measured: the serving stack's; the textbook's for an engine on
    this machine.
    """
    experiment = manifest.configured
    stack = None if experiment is None else STACKS.get(experiment.serving.stack)
    elsewhere = is_local(manifest) or bool(strangers(manifest))
    return TEXTBOOK if stack is None or elsewhere else stack.convention


def is_local(manifest: RunManifest) -> bool:
    """Whether the run measured an engine on the user's machine and not the accelerator: then no price and no
    roofline apply.

    A rehearsal names its engine or what it emulates in the environment; llama.cpp's server names itself.
    """
    named = any(manifest.environment.get(key) for key in ("engine", "emulated", "rehearsal"))
    return named or any(variant.get("engine") == "llamacpp" for variant in manifest.variants.values())


def strangers(manifest: RunManifest) -> dict[str, str]:
    """Variants that were served by another model than the experiment's target, with the name of that model.
    The experiment's price, step arithmetic and roofline do not apply to them.

    A service of the experiment names its model as the experiment does; a server that a user started may name
    the same model by the path of its folder.
    """
    experiment = manifest.configured
    if experiment is None or is_local(manifest):
        return {}
    target = experiment.serving.target
    served = {name: variant.get("model") for name, variant in manifest.variants.items()}
    return {
        name: model for name, model in served.items() if model is not None and not same_model(model, target)
    }
