"""The serving stacks, each with its sources."""

from __future__ import annotations

import dataclasses
from typing import get_args

from specdec.catalog.conventions import NXDI_FUSED, TEXTBOOK
from specdec.catalog.stacks import Evidence, ModeSupport, ServingStack

_REPOSITORY = "public.ecr.aws/neuron/pytorch-inference-vllm-neuronx"
_DLC = (
    "aws-neuron/deep-learning-containers README.md and vllm/inference/*/Dockerfile.neuronx @2be9ed1"
    " (2026-08-17)"
)
_ENDED = (
    "Neuron SDK 2.34.0 (2026-11-30) supports NxD Inference on Trn2 and Trn3 no more: no fixes, no patches"
)
"""Neuron docs, announce-no-support-nxdi-nxd-core-inference-trn (read 2026-12-01). No image of 2.34 was found
in public text by then, so no stack of it is listed."""

_V1_GUIDE = "Neuron docs, vLLM user guide V1 (SDK 2.32, 2026-08-21), known issues"
_MIGRATION = "Neuron docs, vllm-neuron migration guide (2026-07-15)"
_EAGLE3_DESIGN = (
    "Neuron docs, vllm-neuron/docs/design/speculation/speculative_decoding_design.md (2026-06-23)"
)
_DFLASH = (
    "Neuron docs, vllm-neuron DFlash tutorial (2026-07-23) and design (2026-08-04); features guide"
    " (2026-08-13): EAGLE3 and DFlash"
)
_KILN = "foxl-ai/kiln, bench/results/2026-10-07-* @f5a7faf"
_LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"

_FUSED = {"enable_fused_speculation": True}
_EAGLE = {**_FUSED, "enable_eagle_speculation": True}

_NXDI_COPIES = 2.0
"""NxD's model_builder holds the checkpoint and every rank's shards, draft and target together
(neuronx-distributed v2.26.0, NxD Inference v0.6.10598 application_base.py): inferred, not measured."""

_NATIVE_COPIES = 1.0
"""Qwen3-32B, 65.5 GB, started cold on a host with 124 GB (foxl-ai/kiln @f5a7faf, 2026-10-07)."""

_NXDI_SCHEDULE = (
    "its vLLM is older than synthetic acceptance (vllm-project/vllm#40662, 2026-04-24), and NxD Inference"
    " documents nothing like it"
)
_NATIVE_SCHEDULE = (
    "its vLLM takes rejection_sample_method=synthetic, but vllm-neuron verifies with a rejection sampler of"
    " its own and documents no such method"
)
"""Other plugins with a sampler of their own had to be taught it: vllm-ascend#15556, tpu-inference#2819."""

_NXDI_START = (10.0, 30.0)
"""Gemma-4-31B: 10 to 28 minutes of compiling, 15 to 72 seconds of loading (NxD Inference contrib @65693b9,
2026-04-23). Two models may take longer."""

_NATIVE_START = (2.0, 9.0)
"""Cold starts of 135 to 491 seconds, Qwen3-32B 214 (foxl-ai/kiln @f5a7faf, 2026-10-07). A draft adds."""

_NXDI_RESTART = (1.0, 10.0)
"""Loading alone took 15 to 72 seconds there; at worst as long as the shortest compile, which weights of twice
the size may take to be sharded."""

_NATIVE_RESTART = (1.8, 9.0)
"""107 seconds warm, Qwen3-8B (foxl-ai/kiln @f5a7faf, 2026-10-07); at worst as a cold start, since a cache
that was not reused has been reported (aws-neuron-sdk#1368)."""

_NXDI_ELSEWHERE = "not documented: NxD Inference's own guides compile on the instance that serves"

_BUCKETS = "Neuron docs, vllm-neuron/docs/guides/reference-configuration.md (2026-10-16): num_seqs_buckets"
_ONE_BATCH = "NxD Inference v0.6.10598, NeuronConfig: batch_size is the batch a graph is compiled for"

_NATIVE_ELSEWHERE = (
    "without a draft only: VLLM_NEURON_CPU_COMPILE, which does not support speculative decoding (Neuron docs,"
    " vllm-neuron/docs/design/compilation/cpu_compilation.md, 2026-06-22, read 2026-12-01)"
)

_EAGLE3 = ModeSupport(
    method="eagle3",
    on={"trn2.48xlarge": "published", "trn2.3xlarge": "measured"},
    targets=(_LLAMA_8B,),
    note=(
        "EAGLE 3 only. Neuron measured Llama-3.1-8B (1.57x at k=3, TP8), others the same on one chip;"
        " Qwen3-32B is not confirmed"
    ),
)
_DFLASH_MODE = ModeSupport(
    method="dflash",
    whole_block=True,
    on={"trn2.48xlarge": "documented", "trn2.3xlarge": "measured"},
    targets=(_LLAMA_8B,),
    note=(
        "block-parallel draft. Documented for Llama-3.1-8B with window 9; contributors measured 3.1x for one"
        " sequence and 1.2x for four"
    ),
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
            chips=("Trainium", "Trainium2", "Inferentia2"),
            plain=ModeSupport(
                on={"trn2.48xlarge": "published", "trn1.32xlarge": "documented"},
                note="Qwen3 dense from 0.6B to 32B tested on Trn1 by the NxD Inference notes of 2025-07-31",
            ),
            modes={
                "fused": ModeSupport(
                    method="eagle",
                    settings=_FUSED,
                    drafts="target's class",
                    on={"trn2.48xlarge": "published"},
                    note=(
                        "`method` is not read by this stack; `eagle` is the spelling that has run in public,"
                        " with a plain draft too"
                    ),
                ),
                "eagle": ModeSupport(
                    method="eagle",
                    settings=_EAGLE,
                    drafts="prepared Llama",
                    on={"trn2.48xlarge": "documented"},
                    note="EAGLE 1 with a prepared Llama draft; Qwen3 drafts lack the `fc` layer",
                ),
            },
            convention=NXDI_FUSED,
            batch_graphs="one",
            counters_real=False,
            host_copies=_NXDI_COPIES,
            start_minutes=_NXDI_START,
            scheduled_acceptance=_NXDI_SCHEDULE,
            restart_minutes=_NXDI_RESTART,
            compile_elsewhere=_NXDI_ELSEWHERE,
            defects=(
                "V0 engine: end of support announced 2025-12-16",
                _ENDED,
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
                _ONE_BATCH,
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
            chips=("Trainium", "Trainium2", "Inferentia2"),
            plain=ModeSupport(
                on={"trn2.48xlarge": "documented", "trn2.3xlarge": "measured"},
                note="Gemma-4-31B served on one chip by NxD Inference contributors (2026-04-23)",
            ),
            modes={
                "eagle": ModeSupport(
                    method="eagle",
                    settings=_EAGLE,
                    drafts="prepared Llama",
                    on={"trn2.48xlarge": "documented"},
                    note="EAGLE 1; EAGLE 3 for Llama-3.1-8B only, with overrides = { is_eagle3 = true }",
                ),
            },
            convention=NXDI_FUSED,
            batch_graphs="one",
            counters_real=False,
            host_copies=_NXDI_COPIES,
            start_minutes=_NXDI_START,
            scheduled_acceptance=_NXDI_SCHEDULE,
            restart_minutes=_NXDI_RESTART,
            compile_elsewhere=_NXDI_ELSEWHERE,
            defects=(
                _ENDED,
                "no plain draft model",
                "vLLM 0.11 to 0.13 refuse method draft_model",
                "precompiled artifacts silence override_neuron_config",
            ),
            sources=(
                _DLC,
                _V1_GUIDE,
                _ONE_BATCH,
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
            chips=("Trainium", "Trainium2"),
            plain=ModeSupport(
                on={"trn2.48xlarge": "documented", "trn1.32xlarge": "documented"},
                note="the 2.31.1 quickstart sends Trn1 to this image; the 2.29 notes drop Trn1 and Inf2",
            ),
            modes={
                "eagle": ModeSupport(
                    method="eagle",
                    settings=_EAGLE,
                    drafts="prepared Llama",
                    on={"trn2.48xlarge": "documented"},
                    note=(
                        "EAGLE 1, and 3 with overrides = { is_eagle3 = true }; Llama-3.1-8B is the documented"
                        " pair"
                    ),
                ),
            },
            convention=NXDI_FUSED,
            batch_graphs="one",
            counters_real=False,
            host_copies=_NXDI_COPIES,
            start_minutes=_NXDI_START,
            scheduled_acceptance=_NXDI_SCHEDULE,
            restart_minutes=_NXDI_RESTART,
            compile_elsewhere=_NXDI_ELSEWHERE,
            defects=(
                "no plain draft model (known issue 5 of the V1 guide)",
                "last image with NxD Inference",
                _ENDED,
                "compiler error with prefix caching (aws-neuron-sdk#1304)",
            ),
            sources=(_DLC, _V1_GUIDE, _ONE_BATCH, "aws-neuron/aws-neuron-sdk#1304"),
        ),
        ServingStack(
            name="vllm-0.21.0-sdk-2.31.1",
            image=f"{_REPOSITORY}:0.21.0.1.0.0-neuronx-py313-sdk2.31.1-ubuntu24.04",
            vllm="0.21.0",
            sdk="2.31.1",
            library="vllm-neuron 1.0.0",
            released="2026-07",
            generation="native",
            chips=("Trainium2", "Trainium3"),
            plain=ModeSupport(
                on={"trn2.48xlarge": "documented"},
                note="Qwen3-VL-32B and Llama have recipes",
            ),
            modes={
                "eagle": dataclasses.replace(
                    _EAGLE3,
                    on={"trn2.48xlarge": "documented"},
                    note="EAGLE 3 only; documented for Llama-3.1-8B",
                ),
            },
            convention=TEXTBOOK,
            batch_graphs="buckets",
            counters_real=True,
            host_copies=_NATIVE_COPIES,
            start_minutes=_NATIVE_START,
            scheduled_acceptance=_NATIVE_SCHEDULE,
            restart_minutes=_NATIVE_RESTART,
            compile_elsewhere=_NATIVE_ELSEWHERE,
            samples=True,
            defects=("no plain draft model", "compile cache not reused (aws-neuron-sdk#1368)"),
            sources=(_DLC, _MIGRATION, _BUCKETS, _EAGLE3_DESIGN, "aws-neuron/aws-neuron-sdk#1368"),
        ),
        ServingStack(
            name="vllm-0.24.0-sdk-2.32.0",
            image=f"{_REPOSITORY}:0.24.0.1.1.0-neuronx-py313-sdk2.32.0-ubuntu24.04",
            vllm="0.24.0",
            sdk="2.32.0",
            library="vllm-neuron 1.1.0",
            released="2026-08-17",
            generation="native",
            chips=("Trainium2", "Trainium3"),
            plain=ModeSupport(
                on={"trn2.48xlarge": "published", "trn2.3xlarge": "measured"},
                note="Qwen3-32B at 49.8 ms a token on one chip, TP4 (foxl-ai/kiln, 2026-10-07)",
            ),
            modes={"eagle": _EAGLE3, "dflash": _DFLASH_MODE},
            convention=TEXTBOOK,
            batch_graphs="buckets",
            counters_real=True,
            host_copies=_NATIVE_COPIES,
            start_minutes=_NATIVE_START,
            scheduled_acceptance=_NATIVE_SCHEDULE,
            restart_minutes=_NATIVE_RESTART,
            compile_elsewhere=_NATIVE_ELSEWHERE,
            samples=True,
            defects=(
                "no plain draft model",
                "NEURON_COMPILED_ARTIFACTS is documented but not read (vllm-neuron#37)",
                "asynchronous scheduling goes off with speculation",
            ),
            sources=(
                _DLC,
                _MIGRATION,
                _BUCKETS,
                _EAGLE3_DESIGN,
                _DFLASH,
                _KILN,
                "vllm-project/vllm-neuron#37, aws-neuron/aws-neuron-sdk#1371 (2026-07-30)",
            ),
        ),
        ServingStack(
            name="vllm-0.29.0-sdk-2.33.0",
            image=f"{_REPOSITORY}:0.29.0.1.2.0-neuronx-py314-sdk2.33.0-ubuntu26.04",
            vllm="0.29.0",
            sdk="2.33.0",
            library="vllm-neuron 1.2.0",
            released="2026-10-19",
            generation="native",
            chips=("Trainium2", "Trainium3"),
            plain=ModeSupport(
                on={"trn2.48xlarge": "documented"},
                note="Qwen3-32B in bf16 has a recipe (2026-10-13), TP8",
            ),
            modes={
                "eagle": dataclasses.replace(
                    _EAGLE3,
                    on={"trn2.48xlarge": "documented"},
                    note="EAGLE 3 only; the measurements are of SDK 2.32, and the Qwen3-32B recipe has none",
                ),
                "dflash": dataclasses.replace(
                    _DFLASH_MODE,
                    on={"trn2.48xlarge": "documented"},
                    note="its tutorial is in the current docs; what was measured was measured on older code",
                ),
            },
            convention=TEXTBOOK,
            batch_graphs="buckets",
            counters_real=True,
            host_copies=_NATIVE_COPIES,
            start_minutes=_NATIVE_START,
            scheduled_acceptance=_NATIVE_SCHEDULE,
            restart_minutes=_NATIVE_RESTART,
            compile_elsewhere=_NATIVE_ELSEWHERE,
            # The default since 2.33; named so that the artifact's key says which route compiled it.
            environment={"VLLM_NEURON_BACKEND": "neuron_native"},
            samples=True,
            defects=(
                "no plain draft model",
                "asynchronous scheduling goes off with speculation",
                "the server is beta; SDK 2.34.0 came out on 2026-11-30",
            ),
            sources=(
                "Neuron docs v2.33.0, setup/pytorch/dlc.rst (2026-10-16): the image's tag",
                "Neuron docs v2.33.0, features guide (2026-10-06): the native route is the default",
                (
                    "Neuron docs, how-to-precompile-cache.md (2026-10-13, read 2026-12-01): the trace is kept"
                    " only where VLLM_NEURON_BACKEND is set, below a VLLM_CACHE_ROOT that lasts"
                ),
                "Neuron docs, Qwen3-32B recipe (2026-10-13)",
                _MIGRATION,
                _BUCKETS,
                _EAGLE3_DESIGN,
                _DFLASH,
            ),
        ),
    )
}


MODES = tuple(dict.fromkeys(mode for stack in STACKS.values() for mode in stack.modes))
"""Every mode that some stack has."""


def stacks_with(mode: str) -> list[str]:
    """Names of the stacks that support a mode, best evidence first."""
    order = get_args(Evidence)
    able = [stack for stack in STACKS.values() if mode in stack.modes]
    return [stack.name for stack in sorted(able, key=lambda stack: order.index(stack.modes[mode].evidence))]
