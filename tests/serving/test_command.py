"""Command lines, one for each (stack, mode), against the spelling that each stack's documents give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdec.catalog.images import STACKS, stacks_with
from specdec.experiment.fields import Experiment, Variant
from specdec.experiment.reading import load
from specdec.serving import command_line
from specdec.serving.command import ARTIFACT_DIR

ROOT = Path(__file__).parents[2]
DEFAULT = load(ROOT / "experiment.toml")
TARGET = "/store/Qwen/Qwen3-32B/9216db5781bf21249d130ec9da846c4624c16137"
DRAFT = "/store/Qwen/Qwen3-1.7B/70d244cc86ccca08cf5af4e1e306ecf908b1ad5e"
HEAD = [
    "vllm",
    "serve",
    TARGET,
    "--served-model-name",
    "Qwen/Qwen3-32B",
    "--host",
    "0.0.0.0",
    "--port",
    "8000",
]
SIZES = ["--tensor-parallel-size", "32", "--max-num-seqs", "4", "--max-model-len", "1024"]
EQUAL = {
    "on_device_sampling_config": {"do_sample": False, "top_k": 1},
    "save_sharded_checkpoint": True,
    "sequence_parallel_enabled": False,
}
FUSED = EQUAL | {"enable_fused_speculation": True}
EAGLE = FUSED | {"enable_eagle_speculation": True}
V0_DRAFT = {"method": "eagle", "model": DRAFT, "num_speculative_tokens": 7, "max_model_len": 1024}
GREEDY = {"on_device_sampling_config": {"all_greedy": True}}
V1 = ["--no-enable-prefix-caching", "--num-gpu-blocks-override", "4"]
NATIVE = ["--no-enable-prefix-caching", "--max-num-batched-tokens", "2048", "--no-async-scheduling"]
DFLASH_DRAFT = {"method": "dflash", "model": DRAFT, "num_speculative_tokens": 7}
NATIVE_DRAFT = {"method": "eagle3", "model": DRAFT, "num_speculative_tokens": 7}

# Sources: A: Neuron vLLM V0 guide and upstreaming-to-vllm @dd417b3. B: V1 guide and vllm-neuron @a5ef7c8
# (loader, platform). C: vllm-neuron migration guide (2026-07-15) and speculative decoding design
# (2026-06-23).
A = "vllm-0.9.1-sdk-2.26.1"
B = ("vllm-0.13.0-sdk-2.28.0", "vllm-0.16.0-sdk-2.31.1")
C = ("vllm-0.21.0-sdk-2.31.1", "vllm-0.24.0-sdk-2.32.0", "vllm-0.29.0-sdk-2.33.0")
TABLE: dict[tuple[str, str | None], tuple[list[str], str, Any, Any]] = {
    (A, None): ([], "--override-neuron-config", EQUAL, None),
    (A, "fused"): ([], "--override-neuron-config", FUSED, V0_DRAFT),
    (A, "eagle"): ([], "--override-neuron-config", EAGLE, V0_DRAFT),
    **{(stack, None): (V1, "--additional-config", {"override_neuron_config": EQUAL}, None) for stack in B},
    **{
        (stack, "eagle"): (V1, "--additional-config", {"override_neuron_config": EAGLE}, V0_DRAFT)
        for stack in B
    },
    **{(stack, None): (NATIVE, "--additional-config", {"neuron_config": GREEDY}, None) for stack in C},
    **{
        (stack, "eagle"): (NATIVE, "--additional-config", {"neuron_config": GREEDY}, NATIVE_DRAFT)
        for stack in C
    },
    **{
        (stack, "dflash"): (NATIVE, "--additional-config", {"neuron_config": GREEDY}, DFLASH_DRAFT)
        for stack in C[1:]
    },
}


def on(stack: str, mode: str | None, **serving: Any) -> tuple[Experiment, Variant]:
    experiment = DEFAULT.model_copy(
        update={"serving": DEFAULT.serving.model_copy(update={"stack": stack, **serving})}
    )
    baseline, speculative = experiment.variants
    return experiment, speculative.model_copy(update={"mode": mode}) if mode else baseline


def test_the_table_has_every_stack_in_every_mode() -> None:
    assert set(TABLE) == {(stack.name, mode) for stack in STACKS.values() for mode in (None, *stack.modes)}


@pytest.mark.parametrize(("stack", "mode"), TABLE, ids=lambda value: str(value))
def test_the_command_is_spelled_as_the_stack_documents_it(stack: str, mode: str | None) -> None:
    extra, flag, overrides, speculation = TABLE[stack, mode]
    command = command_line(*on(stack, mode))
    assert command.image == STACKS[stack].image
    arguments = list(command.args)
    assert arguments[: len(HEAD) + len(SIZES) + len(extra) + 1] == [*HEAD, *SIZES, *extra, flag]
    rest = arguments[len(HEAD) + len(SIZES) + len(extra) + 1 :]
    assert json.loads(rest[0]) == overrides
    assert rest[1:2] == (["--speculative-config"] if speculation else [])
    assert [json.loads(text) for text in rest[2:]] == ([speculation] if speculation else [])


def test_the_environment_belongs_to_the_generation() -> None:
    def environment(stack: str) -> dict[str, str]:
        return command_line(*on(stack, None)).env

    assert environment(A)["VLLM_USE_V1"] == "0"
    assert "VLLM_USE_V1" not in environment(B[0])
    for stack in (A, *B):
        assert environment(stack)["VLLM_NEURON_FRAMEWORK"] == "neuronx-distributed-inference"
        assert environment(stack)["NEURON_COMPILED_ARTIFACTS"] == ARTIFACT_DIR
    for stack in C:
        assert environment(stack)["VLLM_CACHE_ROOT"] == ARTIFACT_DIR
        assert environment(stack)["NEURON_LIBTORCH_COMPILATION_TIMEOUT"] == "10800"
        assert not {"NEURON_COMPILED_ARTIFACTS", "VLLM_NEURON_FRAMEWORK"} & environment(stack).keys()
    for stack in STACKS:
        assert environment(stack)["NEURON_LOGICAL_NC_CONFIG"] == "2"
        assert environment(stack)["HF_HUB_OFFLINE"] == "1"


def test_a_small_host_compiles_one_graph_at_a_time_and_the_experiment_has_the_last_word() -> None:
    experiment, variant = on(
        C[1], None, environment={"VLLM_NEURON_LOG_LEVEL": "DEBUG", "HF_HUB_OFFLINE": "0"}
    )
    small = experiment.model_copy(
        update={"capacity": experiment.capacity.model_copy(update={"instance_type": "trn2.3xlarge"})}
    )
    workers = "NEURON_LIBTORCH_PARALLEL_COMPILE_WORKERS"
    assert (command_line(experiment, variant).env[workers], command_line(small, variant).env[workers]) == (
        "8",
        "1",
    )
    assert command_line(small, variant).env.items() >= experiment.serving.environment.items()


def test_a_native_stack_samples_in_every_service_when_the_benchmark_does() -> None:
    experiment, variant = on(C[2], "eagle")
    warm = experiment.model_copy(
        update={"benchmark": experiment.benchmark.model_copy(update={"temperature": 0.7})}
    )
    arguments = list(command_line(warm, variant).args)
    told = json.loads(arguments[arguments.index("--additional-config") + 1])
    assert told == {"neuron_config": {"on_device_sampling_config": {"temperature": "0.7"}}}


def test_a_warm_start_on_the_old_loader_repeats_no_nested_override() -> None:
    command = command_line(*on(A, "fused"))
    at = command.warm_args.index("--override-neuron-config") + 1
    assert json.loads(command.warm_args[at]) == {
        key: value for key, value in FUSED.items() if not isinstance(value, dict)
    }
    assert [a for i, a in enumerate(command.warm_args) if i != at] == [
        a for i, a in enumerate(command.args) if i != at
    ]
    for stack in (*B, *C):
        other = command_line(*on(stack, "eagle"))
        assert other.warm_args == other.args


def test_the_draft_is_never_longer_than_the_target() -> None:
    experiment, variant = on(A, "fused", max_model_len=4096)
    assert json.loads(command_line(experiment, variant).args[-1])["max_model_len"] == 4096


def test_own_overrides_reach_the_server_and_a_variants_come_last() -> None:
    experiment, variant = on(A, "fused", overrides={"fused_qkv": True, "cast_type": "config"})
    variant = variant.model_copy(update={"overrides": {"cast_type": "as-declared"}})
    given = json.loads(command_line(experiment, variant).args[-3])
    assert (given["fused_qkv"], given["cast_type"]) == (True, "as-declared")


def test_a_mode_names_the_stacks_that_can_with_the_surest_first() -> None:
    assert stacks_with("fused") == [A]
    assert stacks_with("eagle")[0] == "vllm-0.24.0-sdk-2.32.0"
    assert set(stacks_with("eagle")) == {A, *B, *C}
    assert stacks_with("medusa") == stacks_with("vanilla") == []


def test_every_stack_names_its_sources_and_pins_its_image() -> None:
    for stack in STACKS.values():
        assert stack.sources
        assert stack.sdk in stack.image
        assert f":{stack.vllm}" in stack.image
        assert ":latest" not in stack.image


def test_the_page_for_a_real_node_names_every_flag_and_object() -> None:
    import charts

    page = (ROOT / "docs" / "on-a-node.md").read_text(encoding="utf-8")
    experiment, variant = on(A, "fused")
    command = command_line(experiment, variant)
    at = command.args.index("--override-neuron-config") + 1
    told = (
        [word for word in command.args if word.startswith("--")]
        + list(command.env)
        + list(json.loads(command.args[at]))
    )
    told += list(json.loads(command.args[-1]))
    told += [
        item["kind"]
        for chart in charts.build(DEFAULT, region="us-east-2", bucket="b").values()
        for item in chart.to_json()
    ]
    assert [word for word in told if word not in page] == []
