"""What a serving stack or a node would refuse late is refused at once, with field, value and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec.catalog.models import MODELS
from specdec.errors import BadInputError
from specdec.experiment.reading import load, parse

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "experiment.toml").read_text(encoding="utf-8")
OWN = """
[models."acme/target"]
architecture = "LlamaForCausalLM"
tokenizer = "acme"
layers = 32
hidden_size = 4096
attention_heads = 32
kv_heads = 8
head_size = 128
intermediate_size = 14336
vocabulary = 64000
max_positions = 8192
tied_embeddings = false
parameters = 7_500_000_000

[models."acme/draft"]
architecture = "MistralForCausalLM"
tokenizer = "acme"
layers = 16
hidden_size = 2048
attention_heads = 32
kv_heads = 8
head_size = 64
intermediate_size = 8192
vocabulary = 64000
max_positions = 8192
tied_embeddings = true
parameters = 1_100_000_000
"""


def edited(*edits: tuple[str, str], more: str = "") -> str:
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text + more


CASES = {
    "a stack that is not there": (
        [("vllm-0.9.1-sdk-2.26.1", "vllm-9")],
        "",
        "serving.stack",
        "vllm-9",
        "Use one of vllm-0.9.1",
    ),
    "a mode the stack has not": (
        [("vllm-0.9.1-sdk-2.26.1", "vllm-0.16.0-sdk-2.31.1")],
        "",
        "variants[1].mode",
        "fused",
        "Use serving.stack = vllm-0.9.1-sdk-2.26.1; its own modes: eagle",
    ),
    "a mode no stack has": (
        [('"fused"', '"vanilla"')],
        "",
        "variants[1].mode",
        "vanilla",
        "No stack in the catalogue",
    ),
    "a Qwen3 draft for EAGLE": (
        [('"fused"', '"eagle"')],
        "",
        "variants[1].draft",
        "Qwen/Qwen3-1.7B",
        "Use a Llama pair, or serving.stack = ",
    ),
    "a draft of another tokenizer": (
        [("Qwen/Qwen3-1.7B", "meta-llama/Llama-3.2-1B-Instruct")],
        "",
        "variants[1].draft",
        "meta-llama/Llama-3.2-1B-Instruct",
        "Use a draft with the target's tokenizer: Qwen/Qwen3-1.7B, Qwen/Qwen3-0.6B",
    ),
    "a draft of another class": (
        [("Qwen/Qwen3-32B", "acme/target"), ("Qwen/Qwen3-1.7B", "acme/draft")],
        OWN,
        "variants[1].draft",
        "acme/draft",
        "Use one of",
    ),
    "a gated model without a token": (
        [
            ("Qwen/Qwen3-32B", "meta-llama/Llama-3.3-70B-Instruct"),
            ("Qwen/Qwen3-1.7B", "meta-llama/Llama-3.2-1B-Instruct"),
        ],
        "",
        "serving.hf_token_secret",
        None,
        "Put the token in Secrets Manager",
    ),
    "an unknown model": (
        [("Qwen/Qwen3-32B", "acme/target")],
        "",
        "serving.target",
        "acme/target",
        '[models."<id>"]',
    ),
    "half a model": (
        [("Qwen/Qwen3-32B", "acme/target")],
        '\n[models."acme/target"]\nlayers = 3\n',
        "models.acme/target",
        None,
        "Add them from the model's config.json",
    ),
    "more output than there is room": (
        [("output_tokens = 600", "output_tokens = 960")],
        "",
        "benchmark.output_tokens",
        960,
        "Use at most 953, or raise serving.max_model_len to 1031 or more",
    ),
    "a temperature nobody would heed": (
        [("output_tokens = 600", "output_tokens = 600\ntemperature = 0.7")],
        "",
        "benchmark.temperature",
        0.7,
        "Use 0.0",
    ),
    "an override behind a field's back": (
        [("devices = 8", "devices = 8\noverrides = { tp_degree = 64 }")],
        "",
        "serving.overrides.tp_degree",
        64,
        "Set tensor_parallel_degree",
    ),
    "a kernel that miscalculates on short buckets": (
        [("window = 7", "window = 7\noverrides = { attn_kernel_enabled = true }")],
        "",
        "variants[1].overrides.attn_kernel_enabled",
        True,
        "Raise serving.max_model_len above 1024",
    ),
    "logical cores through the device plugin": (
        [("logical_core_size = 2", 'logical_core_size = 1\nallocation = "device-plugin"')],
        "",
        "serving.logical_core_size",
        1,
        'serving.allocation = "dra"',
    ),
    "more devices than nodes": (
        [("window = 7", "window = 7\ndevices = 16")],
        "",
        "capacity.max_nodes",
        1,
        "Use 2 or more",
    ),
    "fewer nodes than devices at the start": (
        [
            ("window = 7", "window = 7\ndevices = 16"),
            ("desired_nodes = 0", "desired_nodes = 1\nmax_nodes = 2"),
        ],
        "",
        "capacity.desired_nodes",
        1,
        "Use 2, or 0",
    ),
    "a stack that the chip does not run": (
        [("trn2.48xlarge", "trn1.32xlarge"), ("vllm-0.9.1-sdk-2.26.1", "vllm-0.24.0-sdk-2.32.0")],
        "",
        "serving.stack",
        "vllm-0.24.0-sdk-2.32.0",
        "Use vllm-0.9.1-sdk-2.26.1",
    ),
    "a mode that the chip's stacks have not": (
        [
            ("trn2.48xlarge", "trn1.32xlarge"),
            ("vllm-0.9.1-sdk-2.26.1", "vllm-0.24.0-sdk-2.32.0"),
            ('"fused"', '"dflash"'),
        ],
        "",
        "serving.stack",
        "vllm-0.24.0-sdk-2.32.0",
        "Use one of trn2.48xlarge, trn2u.48xlarge, trn2.3xlarge",
    ),
    "claims where the driver does not serve": (
        [("trn2.48xlarge", "inf2.48xlarge")],
        "",
        "serving.allocation",
        "dra",
        'Use "device-plugin"',
    ),
    "a Capacity Block of what is sold in none": (
        [("trn2.48xlarge", "inf2.48xlarge"), ('purchase = "on-demand"', 'purchase = "capacity-block"')],
        "",
        "capacity.purchase",
        "capacity-block",
        "Use one of on-demand, reservation, spot",
    ),
    "eight devices on a node of one": (
        [("trn2.48xlarge", "trn2.3xlarge")],
        "",
        "serving.devices",
        8,
        "Use one of 1",
    ),
    "a loader that would fill the host": (
        [
            ("trn2.48xlarge", "trn2.3xlarge"),
            ("devices = 8", "devices = 1"),
            ("tensor_parallel_degree = 32", "tensor_parallel_degree = 4"),
            ("desired_nodes = 0", "desired_nodes = 2\nmax_nodes = 2"),
        ],
        "",
        "variants[1].draft",
        "Qwen/Qwen3-1.7B",
        "Use trn2.48xlarge or trn2u.48xlarge",
    ),
    "a prefill step that did not load": (
        [
            ("trn2.48xlarge", "trn2.3xlarge"),
            ("vllm-0.9.1-sdk-2.26.1", "vllm-0.24.0-sdk-2.32.0"),
            ("devices = 8", "devices = 1\nprefill_tokens = 8192"),
        ],
        "",
        "serving.prefill_tokens",
        8192,
        "Use at most 2048",
    ),
    "a prefill whose compilation ended the host": (
        [
            ("trn2.48xlarge", "trn2.3xlarge"),
            ("vllm-0.9.1-sdk-2.26.1", "vllm-0.13.0-sdk-2.28.0"),
            ("devices = 8", "devices = 1"),
            ("max_model_len = 1024", "max_model_len = 16384"),
        ],
        "",
        "serving.max_model_len",
        16384,
        "Use less than 16384",
    ),
    "asynchronous scheduling in the baseline alone": (
        [
            ("vllm-0.9.1-sdk-2.26.1", "vllm-0.29.0-sdk-2.33.0"),
            ('"fused"', '"eagle"'),
            ("devices = 8", "devices = 8\nasync_scheduling = true"),
        ],
        "",
        "serving.async_scheduling",
        True,
        "Set it to false",
    ),
    "an EAGLE draft without its target's head": (
        [
            ("Qwen/Qwen3-32B", "meta-llama/Llama-3.3-70B-Instruct"),
            ("Qwen/Qwen3-1.7B", "meta-llama/Llama-3.2-1B-Instruct"),
            ('"fused"', '"eagle"'),
        ],
        "",
        "variants[1].draft",
        "meta-llama/Llama-3.2-1B-Instruct",
        "target_head = true",
    ),
    "an environment variable that is none": (
        [("devices = 8", 'devices = 8\nenvironment = { "no-name" = "1" }')],
        "",
        "serving.environment.no-name",
        "1",
        "Use capital letters",
    ),
    "a service with a name of ours": (
        [("qwen-sd-vllm", "llmperf")],
        "",
        "variants[1].service",
        "llmperf",
        "Use another",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_with_field_value_and_remedy(case: str) -> None:
    edits, more, field, value, remedy = CASES[case]
    with pytest.raises(BadInputError) as caught:
        parse(edited(*edits, more=more))
    assert caught.value.exit_code == 2
    mistakes = {mistake.field: mistake for mistake in caught.value.mistakes}
    assert mistakes[field].value == value
    assert remedy in mistakes[field].remedy


def test_a_third_variant_may_schedule_asynchronously_and_a_native_stack_may_sample() -> None:
    native = edited(
        ("vllm-0.9.1-sdk-2.26.1", "vllm-0.24.0-sdk-2.32.0"),
        ("output_tokens = 600", "output_tokens = 600\ntemperature = 0.7"),
        ('"fused"', '"eagle"'),
        (
            'name = "baseline"',
            'name = "tuned"\nservice = "tuned"\nasync_scheduling = true\n\n[[variants]]\nname = "baseline"',
        ),
        ("devices = 8", "devices = 4"),
        ("tensor_parallel_degree = 32", "tensor_parallel_degree = 16"),
    )
    assert [parse(native).settings(v).async_scheduling for v in parse(native).variants] == [
        True,
        False,
        False,
    ]


def test_a_prepared_draft_is_taken() -> None:
    prepared = edited(
        ("Qwen/Qwen3-32B", "meta-llama/Llama-3.3-70B-Instruct"),
        ("Qwen/Qwen3-1.7B", "meta-llama/Llama-3.2-1B-Instruct"),
        ('"fused"', '"eagle"'),
        ("devices = 8", 'devices = 8\nhf_token_secret = "token"'),
        more='\n[models."meta-llama/Llama-3.2-1B-Instruct"]\ntarget_head = true\n',
    )
    assert parse(prepared).variants[1].mode == "eagle"


def test_a_described_model_serves_as_target_and_draft() -> None:
    own = OWN.replace("MistralForCausalLM", "LlamaForCausalLM")
    experiment = parse(edited(("Qwen/Qwen3-32B", "acme/target"), ("Qwen/Qwen3-1.7B", "acme/draft"), more=own))
    assert experiment.model("acme/target").kv_bytes_per_token() == 2 * 32 * 8 * 128 * 2
    assert experiment.model("acme/draft").revision == "main"


def test_a_known_model_can_be_taken_at_another_revision() -> None:
    experiment = parse(edited(more='\n[models."Qwen/Qwen3-1.7B"]\nrevision = "v2"\n'))
    assert experiment.model("Qwen/Qwen3-1.7B").revision == "v2"
    assert experiment.model("Qwen/Qwen3-1.7B").layers == MODELS["Qwen/Qwen3-1.7B"].layers


@pytest.mark.parametrize(
    ("edit", "field", "words"),
    [
        (("desired_nodes = 0", "desired_nodes = 2"), "desired_nodes", "is more than the 1 that variants"),
        (("desired_nodes = 0", "desired_nodes = 1"), "reservation_id", "is a placeholder"),
        (("concurrency = 1", "loads = [1, 2]"), "benchmark.loads", "shows no drift within it"),
        (('lanes = ["exact"]', 'lanes = ["exact", "llmperf"]'), "benchmark.lanes", "all services in one go"),
        (
            ("[serving]", "[guards]\nscale_down_every_hours = 0\n\n[serving]"),
            "guards.notify",
            "would leave paid nodes, and nobody would hear of it",
        ),
    ],
    ids=["nodes", "placeholder", "loads", "lanes", "guards"],
)
def test_a_design_of_phases_has_what_it_needs(edit: tuple[str, str], field: str, words: str) -> None:
    text = (ROOT / "examples" / "one-node.toml").read_text(encoding="utf-8")
    assert edit[0] in text
    with pytest.raises(BadInputError) as refused:
        parse(text.replace(*edit))
    assert field in str(refused.value)
    assert words in str(refused.value)


def test_one_node_holds_variants_that_are_served_one_after_the_other() -> None:
    text = (ROOT / "examples" / "one-node.toml").read_text(encoding="utf-8")
    assert parse(text).nodes_needed == 1
    with pytest.raises(BadInputError, match="the variants take 1 \\+ 1"):
        parse(text.replace('schedule = "sequential"\n', ""))


@pytest.mark.parametrize("file", sorted(path.name for path in (ROOT / "examples").glob("*.toml")))
def test_the_examples_are_sound(file: str) -> None:
    assert load(ROOT / "examples" / file).variants


@pytest.mark.parametrize("model", list(MODELS))
def test_the_count_of_parameters_follows_from_the_shape(model: str) -> None:
    m = MODELS[model]
    queries, values = m.attention_heads * m.head_size, m.kv_heads * m.head_size
    norms = 2 * m.hidden_size + (
        2 * m.head_size if m.architecture == "Qwen3ForCausalLM" else 0
    )  # Qwen3 normalizes queries and keys
    layer = (
        2 * m.hidden_size * queries
        + 2 * m.hidden_size * values
        + 3 * m.hidden_size * m.intermediate_size
        + norms
    )
    embeddings = m.vocabulary * m.hidden_size * (1 if m.tied_embeddings else 2)
    assert m.parameters == embeddings + m.layers * layer + m.hidden_size
