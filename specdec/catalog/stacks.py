"""Serving stacks: dated, pinned combinations of image, vLLM and Neuron SDK, and what each can do.

A variant asks for a mode; the stack says whether it can, how the mode is spelled, and how sure that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specdec.catalog.conventions import NXDI_FUSED, TEXTBOOK, Convention

Generation = Literal["nxdi-v0", "nxdi-v1", "native"]
"""``nxdi-v0``: Neuron's vLLM V0 fork. ``nxdi-v1``: the V1 plugin on NxD Inference. ``native``: vllm-neuron
1.x without it.
"""

Evidence = Literal["published", "documented", "unverified"]
"""How sure a mode is: run in public by its makers; described in their docs; put together from source or for
other models only.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSupport:
    """How one stack offers one mode.

    Attributes:
        evidence: see ``Evidence``.
        method: value of ``method`` in vLLM's speculative configuration, or None to leave it out.
        note: what limits it.
    """

    evidence: Evidence
    method: str | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingStack:
    """One image and what is known about it.

    Attributes:
        name: name in the experiment file.
        image: image reference. Neuron publishes no digests in public text, so the tag, which names every
            version, pins it.
        vllm: vLLM version.
        sdk: Neuron SDK version.
        library: library that runs the model, with its version.
        released: date of the release, ISO.
        generation: see ``Generation``; decides how configuration is passed.
        modes: supported modes; a mode that is absent cannot be asked for.
        convention: tokens one step may emit.
        counters_real: whether vLLM's speculative-decoding counters carry values.
        defects: what is known to go wrong.
        sources: where this was read, with dates.
    """

    name: str
    image: str
    vllm: str
    sdk: str
    library: str
    released: str
    generation: Generation
    modes: dict[str, ModeSupport]
    convention: Convention
    counters_real: bool
    defects: tuple[str, ...]
    sources: tuple[str, ...]


_REPOSITORY = "public.ecr.aws/neuron/pytorch-inference-vllm-neuronx"
_DLC = (
    "aws-neuron/deep-learning-containers README.md and vllm/inference/*/Dockerfile.neuronx @2be9ed1"
    " (2026-08-17)"
)
_V1_GUIDE = "Neuron docs, vLLM user guide V1 (SDK 2.32, 2026-08-21), known issues"
_MIGRATION = "Neuron docs, vllm-neuron migration guide (2026-07-15)"
_EAGLE3_DESIGN = (
    "Neuron docs, vllm-neuron/docs/design/speculation/speculative_decoding_design.md (2026-06-23)"
)

PUBLISHED = "vllm-0.9.1-sdk-2.26.1"
"""The stack of the published experiment."""

STACKS = {
    stack.name: stack
    for stack in (
        ServingStack(
            name=PUBLISHED,
            image=f"{_REPOSITORY}:0.9.1-neuronx-py311-sdk2.26.1-ubuntu22.04",
            vllm="0.9.1",
            sdk="2.26.1",
            library="NxD Inference 0.6.10598",
            released="2025-10-29",
            generation="nxdi-v0",
            modes={
                "fused": ModeSupport(
                    evidence="published",
                    method="eagle",
                    note=(
                        "`method` is not read by this stack; `eagle` is the spelling that has run in public,"
                        " with a plain draft too"
                    ),
                ),
                "eagle": ModeSupport(
                    evidence="documented",
                    method="eagle",
                    note="EAGLE 1 with a prepared Llama draft; Qwen3 drafts lack the `fc` layer",
                ),
            },
            convention=NXDI_FUSED,
            counters_real=False,
            defects=(
                "V0 engine: end of support announced 2025-12-16",
                "a speculative server decodes greedily whatever temperature is asked for",
                "compiled artifacts are trusted whatever flags are given",
            ),
            sources=(
                _DLC,
                (
                    "aws-neuron/upstreaming-to-vllm main @dd417b3 (2025-06-24): tag 2.26.1 is not in the"
                    " public snapshot"
                ),
                "Neuron docs, sd-inference-tutorial.rst (2025-12-02)",
                "aws-neuron/aws-neuron-eks-samples @cecff9e (2026-02-26)",
            ),
        ),
        ServingStack(
            name="vllm-0.13.0-sdk-2.28.0",
            image=f"{_REPOSITORY}:0.13.0-neuronx-py312-sdk2.28.0-ubuntu24.04",
            vllm="0.13.0",
            sdk="2.28.0",
            library="NxD Inference 0.8.16251",
            released="2026-02-26",
            generation="nxdi-v1",
            modes={
                "eagle": ModeSupport(
                    evidence="documented",
                    method="eagle",
                    note="EAGLE 1; EAGLE 3 for Llama-3.1-8B only, with overrides = { is_eagle3 = true }",
                ),
            },
            convention=NXDI_FUSED,
            counters_real=False,
            defects=(
                "no plain draft model",
                "vLLM 0.11 to 0.13 refuse method draft_model",
                "precompiled artifacts silence override_neuron_config",
            ),
            sources=(
                _DLC,
                _V1_GUIDE,
                "vllm-project/vllm-neuron @a5ef7c8 (2025-11-17)",
                "vllm-project/vllm#26547, #31883",
            ),
        ),
        ServingStack(
            name="vllm-0.16.0-sdk-2.31.1",
            image=f"{_REPOSITORY}:0.16.0-neuronx-py312-sdk2.31.1-ubuntu24.04",
            vllm="0.16.0",
            sdk="2.31.1",
            library="NxD Inference 0.10.18399",
            released="2026-07",
            generation="nxdi-v1",
            modes={
                "eagle": ModeSupport(
                    evidence="documented",
                    method="eagle",
                    note=(
                        "EAGLE 1, and 3 with overrides = { is_eagle3 = true }; Llama-3.1-8B is the documented"
                        " pair"
                    ),
                ),
            },
            convention=NXDI_FUSED,
            counters_real=False,
            defects=(
                "no plain draft model (known issue 5 of the V1 guide)",
                "last image with NxD Inference, which is in maintenance",
                "compiler error with prefix caching (aws-neuron-sdk#1304)",
            ),
            sources=(_DLC, _V1_GUIDE, "aws-neuron/aws-neuron-sdk#1304"),
        ),
        ServingStack(
            name="vllm-0.21.0-sdk-2.31.1",
            image=f"{_REPOSITORY}:0.21.0.1.0.0-neuronx-py313-sdk2.31.1-ubuntu24.04",
            vllm="0.21.0",
            sdk="2.31.1",
            library="vllm-neuron 1.0.0",
            released="2026-07",
            generation="native",
            modes={
                "eagle": ModeSupport(
                    evidence="unverified", method="eagle3", note="EAGLE 3 only; documented for Llama-3.1-8B"
                ),
            },
            convention=TEXTBOOK,
            counters_real=True,
            defects=("no plain draft model", "compile cache not reused (aws-neuron-sdk#1368)"),
            sources=(_DLC, _MIGRATION, _EAGLE3_DESIGN, "aws-neuron/aws-neuron-sdk#1368"),
        ),
        ServingStack(
            name="vllm-0.24.0-sdk-2.32.0",
            image=f"{_REPOSITORY}:0.24.0.1.1.0-neuronx-py313-sdk2.32.0-ubuntu24.04",
            vllm="0.24.0",
            sdk="2.32.0",
            library="vllm-neuron 1.1.0",
            released="2026-08-17",
            generation="native",
            modes={
                "eagle": ModeSupport(
                    evidence="unverified",
                    method="eagle3",
                    note=(
                        "EAGLE 3 only; Llama-3.1-8B measured by Neuron (1.57x at k=3), Qwen3-32B not"
                        " confirmed"
                    ),
                ),
            },
            convention=TEXTBOOK,
            counters_real=True,
            defects=(
                "no plain draft model",
                "NEURON_COMPILED_ARTIFACTS is documented but not read (vllm-neuron#37)",
                "asynchronous scheduling goes off with speculation",
            ),
            sources=(
                _DLC,
                _MIGRATION,
                _EAGLE3_DESIGN,
                "vllm-project/vllm-neuron#37, aws-neuron/aws-neuron-sdk#1371 (2026-07-30)",
            ),
        ),
    )
}


def stacks_with(mode: str) -> list[str]:
    """Names of the stacks that support a mode, best evidence first."""
    order = ("published", "documented", "unverified")
    able = [stack for stack in STACKS.values() if mode in stack.modes]
    return [stack.name for stack in sorted(able, key=lambda stack: order.index(stack.modes[mode].evidence))]
