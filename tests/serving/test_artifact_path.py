"""The artifact's name changes with everything that is compiled in, and with nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.catalog.images import STACKS
from specdec.experiment.fields import Experiment, ModelFacts
from specdec.experiment.reading import load
from specdec.serving import artifact_path

DEFAULT = load(Path(__file__).parents[2] / "experiment.toml")
REVISION = st.from_regex(r"[0-9a-f]{40}", fullmatch=True)

COMPILED: dict[str, st.SearchStrategy[Any]] = {
    "serving.target": st.sampled_from(["Qwen/Qwen3-0.6B", "meta-llama/Llama-3.1-8B-Instruct"]),
    "serving.tensor_parallel_degree": st.sampled_from([1, 2, 4, 8, 16, 64]),
    "serving.logical_core_size": st.just(1),
    "serving.max_model_len": st.integers(1025, 40960),
    "serving.max_num_seqs": st.integers(5, 64),
    "serving.sequence_parallel": st.just(True),
    "serving.overrides": st.dictionaries(
        st.sampled_from(["fused_qkv", "async_mode"]), st.booleans(), min_size=1
    ),
    "variant.tensor_parallel_degree": st.sampled_from([8, 16, 64]),
    "variant.max_num_seqs": st.sampled_from([1, 2, 8]),
    "variant.overrides": st.dictionaries(
        st.sampled_from(["fused_qkv", "qk_layernorm"]), st.booleans(), min_size=1
    ),
    "serving.environment": st.just({"NEURON_CC_FLAGS": "-O1"}),
    "variant.mode": st.just("eagle"),
    "variant.draft": st.just("Qwen/Qwen3-0.6B"),
    "variant.window": st.integers(2, 32).filter(lambda window: window != 7),
    "revision.Qwen/Qwen3-32B": REVISION,
    "revision.Qwen/Qwen3-1.7B": REVISION,
}
NOT_COMPILED: dict[str, st.SearchStrategy[Any]] = {
    "name": st.from_regex(r"[a-z]{3,20}", fullmatch=True),
    "owner": st.text(min_size=1),
    "serving.devices": st.sampled_from([4, 16]),
    "serving.prefill_tokens": st.integers(128, 8192),
    "serving.async_scheduling": st.just(True),
    "variant.async_scheduling": st.just(True),
    "serving.allocation": st.just("device-plugin"),
    "serving.neighbours": st.sampled_from(["devicegroup", "none"]),
    "serving.startup_minutes": st.integers(5, 720),
    "serving.security": st.sampled_from(["capabilities", "privileged"]),
    "serving.hf_token_secret": st.text(min_size=1),
    "variant.name": st.from_regex(r"[a-z]{3,20}", fullmatch=True),
    "variant.service": st.from_regex(r"[a-z]{3,20}", fullmatch=True),
    "variant.devices": st.sampled_from([4, 16]),
    "benchmark.output_tokens": st.integers(2, 900),
    "benchmark.concurrency": st.integers(1, 64),
    "capacity.max_nodes": st.integers(1, 4),
    "cost.node_usd_per_hour": st.floats(1, 100),
    "revision.Qwen/Qwen3-0.6B": REVISION,
}


def changed(field: str, value: Any) -> Experiment:
    section, _, name = field.partition(".")
    match section:
        case "variant":
            variants = (DEFAULT.variants[0], DEFAULT.variants[1].model_copy(update={name: value}))
            return DEFAULT.model_copy(update={"variants": variants})
        case "revision":
            return DEFAULT.model_copy(update={"models": {name: ModelFacts(revision=value)}})
        case _:
            update = (
                {section: getattr(DEFAULT, section).model_copy(update={name: value})}
                if name
                else {section: value}
            )
            return DEFAULT.model_copy(update=update)


def drawn(table: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    return st.sampled_from(sorted(table)).flatmap(lambda field: st.tuples(st.just(field), table[field]))


def path(experiment: Experiment) -> str:
    return artifact_path(experiment, experiment.variants[1])


@given(drawn(COMPILED))
@settings(deadline=None, max_examples=200)
def test_a_setting_that_is_compiled_in_changes_the_path(change: tuple[str, Any]) -> None:
    assert path(changed(*change)) != path(DEFAULT)


@given(drawn(NOT_COMPILED))
@settings(deadline=None, max_examples=150)
def test_a_setting_that_is_not_leaves_it(change: tuple[str, Any]) -> None:
    assert path(changed(*change)) == path(DEFAULT)


def test_every_field_of_serving_and_variant_is_on_one_of_the_lists() -> None:
    listed = COMPILED.keys() | NOT_COMPILED.keys() | {"serving.stack"}
    for name, section in (("serving", DEFAULT.serving), ("variant", DEFAULT.variants[1])):
        assert {f"{name}.{field}" for field in type(section).model_fields} <= listed


def test_baseline_and_speculative_never_share_an_artifact() -> None:
    assert len({artifact_path(DEFAULT, variant) for variant in DEFAULT.variants}) == 2


def test_a_native_stack_compiles_more_in() -> None:
    def native(**changes: Any) -> str:
        serving = DEFAULT.serving.model_copy(update={"stack": "vllm-0.29.0-sdk-2.33.0", **changes})
        return artifact_path(DEFAULT.model_copy(update={"serving": serving}), DEFAULT.variants[0])

    assert len({native(), native(prefill_tokens=1024), native(async_scheduling=True)}) == 3


def test_another_chip_has_other_artifacts() -> None:
    kinds = ("trn2.48xlarge", "trn2.3xlarge", "trn1.32xlarge", "inf2.48xlarge")
    made = {kind: path(changed("capacity.instance_type", kind)) for kind in kinds}
    assert made["trn2.48xlarge"] == made["trn2.3xlarge"]
    assert len(set(made.values())) == 3


def test_every_stack_has_its_own_artifacts() -> None:
    baseline = DEFAULT.variants[0]
    assert len({artifact_path(changed("serving.stack", stack), baseline) for stack in STACKS}) == len(STACKS)
