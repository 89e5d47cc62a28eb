"""The command line of a variant's server: a pure function of the experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec.serving.layout import model_prefix

if TYPE_CHECKING:
    from specdec.catalog.stacks import ServingStack
    from specdec.experiment.fields import Experiment, Variant

PORT = 8000
STORE = "/store/"
"""Where the models of the bucket are mounted, read-only."""

ARTIFACT_DIR = "/artifacts/whole"
"""Where the compiled graphs of the variant lie on the node's disk."""

SCRATCH_DIR = "/scratch"
"""Compiler work and caches: node disk, lost with the pod."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What runs in the server's container.

    Attributes:
        image: container image.
        args: the whole command, first word ``vllm``, when nothing is compiled yet.
        warm_args: the same command when the compiled graphs are there. NxD Inference's V0 loader writes every
            override it is given over the loaded configuration; a nested one replaces an object by a
            dictionary and the server fails (aws-neuron/upstreaming-to-vllm, neuronx_distributed.py,
            load_weights). So only flat overrides are repeated.
        env: environment of the container.
    """

    image: str
    args: tuple[str, ...]
    warm_args: tuple[str, ...]
    env: dict[str, str]


def model_path(experiment: Experiment, model: str) -> str:
    """Folder of a staged model inside the server's container."""
    return STORE + model_prefix(model, experiment.model(model).revision).removeprefix("models/").rstrip("/")


def command_line(experiment: Experiment, variant: Variant) -> CommandLine:
    """Image, arguments and environment of the server of one variant.

    Args:
        experiment: a checked experiment: the stack exists and supports the variant's mode.
        variant: one of ``experiment.variants``.
    """
    stack = experiment.stack
    settings = library_settings(experiment, variant)
    head = [
        "vllm",
        "serve",
        model_path(experiment, experiment.serving.target),
        "--served-model-name",
        experiment.serving.target,
        "--host",
        "0.0.0.0",  # noqa: S104 - the pod's own network namespace; the network policy says who gets in
        "--port",
        str(PORT),
    ]
    flat = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    return CommandLine(
        image=stack.image,
        args=(*head, *graph_arguments(experiment, variant)),
        warm_args=(
            *head,
            *_graph_arguments(experiment, variant, flat if stack.generation == "nxdi-v0" else settings),
        ),
        env=server_environment(experiment),
    )


def graph_arguments(experiment: Experiment, variant: Variant) -> list[str]:
    """The part of the command that decides what is compiled."""
    return _graph_arguments(experiment, variant, library_settings(experiment, variant))


def _graph_arguments(experiment: Experiment, variant: Variant, overrides: Mapping[str, Any]) -> list[str]:
    stack, settings = experiment.stack, experiment.settings(variant)
    arguments = ["--tensor-parallel-size", str(settings.tensor_parallel_degree)]
    arguments += [
        "--max-num-seqs",
        str(settings.max_num_seqs),
        "--max-model-len",
        str(experiment.serving.max_model_len),
    ]
    if stack.generation != "nxdi-v0":
        arguments += ["--no-enable-prefix-caching"]
    if stack.generation == "native":
        arguments += ["--max-num-batched-tokens", str(experiment.serving.prefill_tokens)]
        # Speculation turns it off by itself; said for every service, so that a baseline differs in the draft
        # alone.
        arguments += [] if settings.async_scheduling else ["--no-async-scheduling"]
    if stack.generation == "nxdi-v1":
        # One contiguous block per sequence; without prefix caching the plugin makes a block as long as the
        # model.
        arguments += ["--num-gpu-blocks-override", str(settings.max_num_seqs)]
    arguments += _overrides(stack, overrides)
    speculation = _speculation(experiment, variant, stack)
    return [*arguments, "--speculative-config", _json(speculation)] if speculation else arguments


def library_settings(experiment: Experiment, variant: Variant) -> dict[str, Any]:
    """Everything the serving library is told beside vLLM's own arguments, by the library's own names."""
    serving, stack = experiment.serving, experiment.stack
    values: dict[str, Any]
    if stack.generation == "native":
        temperature = experiment.benchmark.temperature
        values = {
            "on_device_sampling_config": {"temperature": str(temperature)}
            if temperature
            else {"all_greedy": True}
        }
    else:
        # The library's own defaults differ between a plain and a speculative server, in sampler and sequence
        # parallelism: left alone, the comparison would measure them too.
        values = {
            "on_device_sampling_config": {"do_sample": False, "top_k": 1},
            "save_sharded_checkpoint": True,
            "sequence_parallel_enabled": serving.sequence_parallel,
        }
    support = stack.support(variant.mode)
    settings: Mapping[str, Any] = support.settings if support else {}
    return {**values, **settings, **experiment.settings(variant).overrides}


def _overrides(stack: ServingStack, values: Mapping[str, Any]) -> list[str]:
    if not values:
        return []
    match stack.generation:
        case "nxdi-v0":
            return ["--override-neuron-config", _json(values)]
        case "nxdi-v1":
            return ["--additional-config", _json({"override_neuron_config": values})]
        case "native":
            return ["--additional-config", _json({"neuron_config": values})]


def _speculation(experiment: Experiment, variant: Variant, stack: ServingStack) -> dict[str, Any] | None:
    if variant.mode is None or variant.draft is None:
        return None
    method = stack.modes[variant.mode].method
    return {
        **({"method": method} if method else {}),
        "model": model_path(experiment, variant.draft),
        "num_speculative_tokens": variant.window,
        # vLLM refuses a draft that is longer than the target; the graph has the target's length anyway.
        **({"max_model_len": experiment.serving.max_model_len} if stack.generation != "native" else {}),
    }


def server_environment(experiment: Experiment) -> dict[str, str]:
    """Environment of every server: what its generation and stack need, then the experiment's own."""
    stack, seconds = experiment.stack, experiment.serving.startup_minutes * 60
    env = {
        # Model folders are mounted: nothing may be fetched behind the experiment's back.
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": f"{SCRATCH_DIR}/huggingface",
        "NEURON_LOGICAL_NC_CONFIG": str(experiment.serving.logical_core_size),
        "VLLM_NO_USAGE_STATS": "1",
        **stack.environment,
    }
    if stack.generation == "native":
        env |= {
            # By default 600 s for one graph, and every rank waits for the one that compiles it.
            "NEURON_LIBTORCH_COMPILATION_TIMEOUT": str(seconds),
            "NEURON_LIBTORCH_PARALLEL_COMPILE_WORKERS": str(experiment.instance.compile_workers),
            "VLLM_CACHE_ROOT": ARTIFACT_DIR,
            "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "1200",
            "VLLM_NEURON_COMPILATION_TIMEOUT": str(seconds),
            # Without EFA interfaces the plugin from 0.21 on fails to find its neighbours (aws-samples,
            # sample-qwen3.5-qwen3.6-dense-trainium @e3d86bf).
            **({} if experiment.capacity.efa else {"NEURON_SKIP_EFA_AFFINITY": "1"}),
        }
    else:
        env |= {
            "BASE_COMPILE_WORK_DIR": f"{SCRATCH_DIR}/compile/",
            "NEURON_COMPILED_ARTIFACTS": ARTIFACT_DIR,
            "VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference",
        }
        env |= {"VLLM_USE_V1": "0"} if stack.generation == "nxdi-v0" else {}
    return {**env, **experiment.serving.environment}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
