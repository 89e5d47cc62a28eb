"""The name of a variant's compiled graphs: a function of everything that is compiled into them.

The Neuron loader trusts whatever lies at the path it is given and ignores changed settings, so two
configurations must never share a path.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from specdec.serving.command import graph_arguments, library_settings, model_path
from specdec.serving.layout import ARTIFACTS

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment, Variant


def artifact_configuration(experiment: Experiment, variant: Variant) -> dict[str, Any]:
    """Everything that is compiled into the graphs, as plain data; names, devices and prices are not."""
    serving = experiment.serving
    settings = experiment.settings(variant)
    environment = {**experiment.stack.environment, **serving.environment}
    speculative = variant.draft is not None
    return {
        "image": experiment.stack.image,
        "target": serving.target,
        "target_revision": experiment.model(serving.target).revision,
        "tensor_parallel_degree": settings.tensor_parallel_degree,
        "logical_core_size": serving.logical_core_size,
        "max_model_len": serving.max_model_len,
        "max_num_seqs": settings.max_num_seqs,
        "overrides": library_settings(experiment, variant),
        "mode": variant.mode,
        "draft": variant.draft,
        "draft_revision": experiment.model(variant.draft).revision if variant.draft and speculative else None,
        "window": variant.window,
        "arguments": graph_arguments(experiment, variant),
        **({"environment": environment} if environment else {}),
        # Trainium2 goes unnamed: artifacts kept from when it was the only chip keep their names.
        **({"chip": chip} if (chip := experiment.instance.chip) != "Trainium2" else {}),
    }


def artifact_path(experiment: Experiment, variant: Variant) -> str:
    """Key prefix of the variant's artifact in the bucket, ``artifacts/<16 hex digits>``, without a trailing
    slash.
    """
    canonical = json.dumps(
        artifact_configuration(experiment, variant), sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return ARTIFACTS + hashlib.sha256(canonical.encode()).hexdigest()[:16]


def expected_library_configuration(experiment: Experiment, variant: Variant) -> dict[str, Any] | None:
    """What NxD Inference's own ``neuron_config.json`` must say in an artifact of this variant, as jq path to
    value.

    Field names: NxD Inference v0.6.10598, models/config.py, NeuronConfig and FusedSpecNeuronConfig. None
    where the stack does not use that library: then only the configuration in our own marker is compared.
    """
    if experiment.stack.generation == "native":
        return None
    settings, library = experiment.settings(variant), library_settings(experiment, variant)
    expected: dict[str, Any] = {
        ".neuron_config.tp_degree": settings.tensor_parallel_degree,
        ".neuron_config.batch_size": settings.max_num_seqs,
        ".neuron_config.seq_len": experiment.serving.max_model_len,
        ".neuron_config.logical_nc_config": experiment.serving.logical_core_size,
        ".neuron_config.speculation_length": variant.window or 0,
        ".neuron_config.enable_fused_speculation": library.get("enable_fused_speculation", False),
        ".neuron_config.enable_eagle_speculation": library.get("enable_eagle_speculation", False),
        ".neuron_config.sequence_parallel_enabled": experiment.serving.sequence_parallel,
        ".neuron_config.on_device_sampling_config.do_sample": False,
    }
    if variant.draft is not None:
        expected[".fused_spec_config.draft_model_path"] = model_path(experiment, variant.draft)
    return expected
