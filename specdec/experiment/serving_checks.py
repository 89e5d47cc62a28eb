"""Cross-checks of how the variants are served. They refuse at once what the serving stack or the node would
refuse hours and dollars later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from specdec.catalog.images import MODES, STACKS, stacks_with
from specdec.catalog.models import MODELS
from specdec.errors import Mistake
from specdec.experiment.models import missing_facts, with_own
from specdec.experiment.registry import check

if TYPE_CHECKING:
    from specdec.experiment.fields import Benchmark, ModelFacts, Serving, Variant

CHART_NAMES = ("namespace", "device-claims", "model-storage", "model-staging", "phases", "llmperf")
"""Names that the experiment's own charts have, beside one for each service."""

OWNED_OVERRIDES = {
    "batch_size": "max_num_seqs",
    "enable_eagle_speculation": "mode",
    "enable_fused_speculation": "mode",
    "logical_nc_config": "serving.logical_core_size",
    "max_batch_size": "max_num_seqs",
    "max_context_length": "serving.max_model_len",
    "max_length": "serving.max_model_len",
    "on_device_sampling_config": "benchmark.temperature",
    "seq_len": "serving.max_model_len",
    "sequence_parallel_enabled": "serving.sequence_parallel",
    "speculation_length": "window",
    "tp_degree": "tensor_parallel_degree",
}
"""Settings of NxD Inference that a field of the experiment decides."""

PROMPT_TOKENS = 64
"""A short prompt with its chat template; longer ones are refused by the server one by one."""


@check
def _own_models(models: Mapping[str, ModelFacts]) -> Iterator[Mistake]:
    for model, facts in models.items():
        missing = [] if model in MODELS else missing_facts(facts)
        if missing:
            yield Mistake(
                f"models.{model}",
                None,
                f"lacks {', '.join(missing)}",
                "Add them from the model's config.json",
            )


@check
def _stack(serving: Serving, variants: tuple[Variant, ...]) -> Iterator[Mistake]:
    stack = STACKS.get(serving.stack)
    if stack is None:
        yield Mistake(
            "serving.stack", serving.stack, "is not in the stack catalogue", f"Use one of {', '.join(STACKS)}"
        )
        return
    for index, variant in enumerate(variants):
        if variant.mode is None or variant.mode in stack.modes:
            continue
        able = stacks_with(variant.mode)
        here = ", ".join(stack.modes) or "none"
        remedy = (
            f"Use serving.stack = {' or '.join(able)}"
            if able
            else f"No stack in the catalogue serves it; they have {', '.join(MODES)}"
        )
        yield Mistake(
            f"variants[{index}].mode",
            variant.mode,
            f"is not offered by {stack.name}",
            f"{remedy}; its own modes: {here}",
        )


@check
def _drafts(
    serving: Serving, variants: tuple[Variant, ...], models: Mapping[str, ModelFacts]
) -> Iterator[Mistake]:
    stack, known = STACKS.get(serving.stack), with_own(models)
    target = known.get(serving.target)
    if stack is None or target is None:
        return
    for index, variant in enumerate(variants):
        draft, support = known.get(variant.draft or ""), stack.support(variant.mode)
        field = f"variants[{index}].draft"
        if draft is None or support is None or draft.tokenizer != target.tokenizer:
            continue
        if support.drafts == "prepared Llama" and draft.architecture != "LlamaForCausalLM":
            yield Mistake(
                field,
                draft.id,
                f"has architecture {draft.architecture}; {stack.name} has the EAGLE layer `fc` in its Llama"
                " code only",
                f"Use a Llama pair, or serving.stack = {' or '.join(_eagle_as_it_is())}",
            )
        elif support.drafts == "prepared Llama" and not draft.target_head:
            yield Mistake(
                field,
                draft.id,
                f"needs a copy of the target's output head on {stack.name}, which public EAGLE drafts lack",
                "Copy lm_head.weight of the target into the draft's one model.safetensors, in its data type,"
                f' publish the result, name it here and set target_head = true in [models."{draft.id}"]; or'
                f" use serving.stack = {' or '.join(_eagle_as_it_is())}",
            )
        elif support.drafts == "target's class" and draft.architecture != target.architecture:
            alike = [
                m.id
                for m in known.values()
                if m.architecture == target.architecture and m.parameters < target.parameters
            ]
            yield Mistake(
                field,
                draft.id,
                f"has architecture {draft.architecture}; {stack.name} builds draft and target from one class,"
                f" {target.architecture}",
                f"Use one of {', '.join(alike)}",
            )


def _eagle_as_it_is() -> list[str]:
    """Stacks that take a public EAGLE draft unchanged."""
    return [name for name in stacks_with("eagle") if STACKS[name].modes["eagle"].drafts == "any"]


@check
def _gated(
    serving: Serving, variants: tuple[Variant, ...], models: Mapping[str, ModelFacts]
) -> Iterator[Mistake]:
    known = with_own(models)
    gated = [model for model in serving.loaded_models(variants) if model in known and known[model].gated]
    if gated and serving.hf_token_secret is None:
        yield Mistake(
            "serving.hf_token_secret",
            None,
            f"is missing, and {', '.join(gated)} is given to licensed accounts only",
            "Put the token in Secrets Manager and name the secret here",
        )


@check
def _room(serving: Serving, variants: tuple[Variant, ...], benchmark: Benchmark) -> Iterator[Mistake]:
    window = max((variant.window or 0 for variant in variants), default=0)
    need = PROMPT_TOKENS + benchmark.output_tokens + window
    if need > serving.max_model_len:
        yield Mistake(
            "benchmark.output_tokens",
            benchmark.output_tokens,
            f"does not fit serving.max_model_len ({serving.max_model_len}) beside {PROMPT_TOKENS} tokens of"
            f" prompt and the window of {window}, which a fused step writes ahead",
            f"Use at most {serving.max_model_len - PROMPT_TOKENS - window}, or raise serving.max_model_len to"
            f" {need} or more",
        )


@check
def _temperature(serving: Serving, variants: tuple[Variant, ...], benchmark: Benchmark) -> Iterator[Mistake]:
    stack = STACKS.get(serving.stack)
    if stack is None or stack.samples or not benchmark.temperature:
        return
    if any(variant.speculative for variant in variants):
        yield Mistake(
            "benchmark.temperature",
            benchmark.temperature,
            f"would be ignored: every service on {serving.stack} is compiled to decode greedily",
            f"Use 0.0, or a stack that samples: {', '.join(s.name for s in STACKS.values() if s.samples)}",
        )


@check
def _async_scheduling(serving: Serving, variants: tuple[Variant, ...]) -> Iterator[Mistake]:
    stack = STACKS.get(serving.stack)
    for index, variant in enumerate(variants):
        if stack is None or not serving.settings(variant).async_scheduling:
            continue
        own = variant.async_scheduling is not None
        field = f"variants[{index}].async_scheduling" if own else "serving.async_scheduling"
        if stack.generation != "native":
            yield Mistake(field, True, f"is not known to {stack.name}", "Set it to false")
        elif variant.speculative:
            yield Mistake(
                field,
                True,
                "is turned off by speculation: the services would differ in more than the draft",
                "Set it to false; a further variant without a draft may have it as a tuned baseline",
            )


@check
def _environment(serving: Serving) -> Iterator[Mistake]:
    for name, value in serving.environment.items():
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
            yield Mistake(
                f"serving.environment.{name}",
                value,
                "is not the name of an environment variable",
                "Use capital letters, digits and underscores",
            )


@check
def _overrides(serving: Serving, variants: tuple[Variant, ...]) -> Iterator[Mistake]:
    tables = [
        ("serving.overrides", serving.overrides),
        *((f"variants[{i}].overrides", v.overrides) for i, v in enumerate(variants)),
    ]
    for field, table in tables:
        for name, value in table.items():
            if name in OWNED_OVERRIDES:
                yield Mistake(
                    f"{field}.{name}",
                    value,
                    "is decided by a field of the experiment",
                    f"Set {OWNED_OVERRIDES[name]}",
                )
            elif name.endswith("kernel_enabled") and value and serving.max_model_len <= 1024:
                yield Mistake(
                    f"{field}.{name}",
                    value,
                    "gives numerical errors (status 1003) with buckets up to 1024, and serving.max_model_len"
                    f" is {serving.max_model_len}",
                    "Raise serving.max_model_len above 1024, or leave the kernel off",
                )


@check
def _service_names(variants: tuple[Variant, ...]) -> Iterator[Mistake]:
    for index, variant in enumerate(variants):
        if variant.service in CHART_NAMES:
            yield Mistake(
                f"variants[{index}].service",
                variant.service,
                "is the name of a part of the experiment itself",
                "Use another",
            )
