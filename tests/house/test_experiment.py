from collections.abc import Iterator
from pathlib import Path

import pytest

from specdec.catalog.models import MODELS, Model
from specdec.errors import BadInputError, Mistake
from specdec.experiment.reading import load, parse
from specdec.experiment.registry import check

DEFAULT = Path(__file__).parents[2] / "experiment.toml"


def mistakes(*edits: tuple[str, str]) -> dict[str, tuple[object, str, str]]:
    """Field to (value, problem, remedy) of every mistake that the default experiment has after the edits."""
    text = DEFAULT.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(BadInputError) as caught:
        parse(text)
    assert caught.value.exit_code == 2
    return {
        mistake.field: (mistake.value, mistake.problem, mistake.remedy) for mistake in caught.value.mistakes
    }


def test_the_default_is_the_published_experiment() -> None:
    experiment = load(DEFAULT)
    speculative = experiment.variants[1]
    assert experiment.serving.target == "Qwen/Qwen3-32B"
    assert experiment.serving.tensor_parallel_degree == 32
    assert (speculative.draft, speculative.mode, speculative.window) == ("Qwen/Qwen3-1.7B", "fused", 7)
    assert (experiment.benchmark.output_tokens, experiment.benchmark.concurrency) == (600, 4)
    assert experiment.baseline.service == "qwen-vllm"


def test_the_hash_follows_the_meaning_and_not_the_spelling() -> None:
    text = DEFAULT.read_text(encoding="utf-8")
    same = parse(text.replace("window = 7", "window   =   7 # as published"))
    other = parse(text.replace("window = 7", "window = 5"))
    assert same.configuration_hash() == parse(text).configuration_hash() != other.configuration_hash()


def test_a_misspelt_key_is_named_with_the_right_one() -> None:
    found = mistakes(("desired_nodes = 0", "desird_nodes = 1"))
    assert found["capacity.desird_nodes"] == (
        1,
        "is not a field of the experiment",
        "Did you mean 'desired_nodes'?",
    )


def test_mistakes_in_different_sections_and_between_them_are_reported_at_once() -> None:
    found = mistakes(
        ("desired_nodes = 0", "desird_nodes = 1"),
        ("tensor_parallel_degree = 32", "tensor_parallel_degree = 24"),
        ("window = 7", 'window = "seven"'),
        ('zone = "us-east-2b"', 'zone = "us-west-2a"'),
    )
    assert {
        "capacity.desird_nodes",
        "serving.tensor_parallel_degree",
        "variants[1].window",
        "placement.us-east-2.zone",
    } == found.keys()


def test_a_degree_that_does_not_divide_the_heads() -> None:
    value, problem, remedy = mistakes(("tensor_parallel_degree = 32", "tensor_parallel_degree = 24"))[
        "serving.tensor_parallel_degree"
    ]
    assert value == 24
    assert "64 attention heads" in problem
    assert remedy == "Use one of 1, 2, 4, 8, 16, 32, 64"


def test_a_degree_above_the_logical_cores_of_the_claim() -> None:
    _, problem, _ = mistakes(("tensor_parallel_degree = 32", "tensor_parallel_degree = 64"))[
        "serving.tensor_parallel_degree"
    ]
    assert "32 logical cores of 8 devices" in problem


def test_weights_that_do_not_fit() -> None:
    found = mistakes(
        ("tensor_parallel_degree = 32", "tensor_parallel_degree = 4"),
        ("devices = 8", "devices = 1"),
        ("= 1024", "= 40960"),
    )
    assert "96 GiB of HBM" in found["serving.devices"][1]


def test_capacity_block_without_a_reservation() -> None:
    found = mistakes(('purchase = "on-demand"', 'purchase = "capacity-block"'))
    assert "capacity-block" in found["placement.us-east-2.reservation_id"][1]


def test_spot_needs_no_reservation_and_takes_none() -> None:
    spot = ('purchase = "on-demand"', 'purchase = "spot"')
    changed = parse(DEFAULT.read_text(encoding="utf-8").replace(*spot))
    price = changed.price("us-east-2")
    assert price is not None
    assert price.purchase == "spot"
    found = mistakes(spot, ("[placement.us-east-2]", '[placement.us-east-2]\nreservation_id = "cr-01234567"'))
    assert "purchase is 'spot'" in found["placement.us-east-2.reservation_id"][1]


def test_a_region_without_the_instance_type_is_refused_with_the_known_ones() -> None:
    found = mistakes(('regions = ["us-east-2"]', 'regions = ["eu-west-1"]'))
    assert "us-east-2" in found["regions"][2]


@pytest.mark.parametrize(
    "model",
    [model for model in MODELS.values() if model.architecture == "Qwen3ForCausalLM"],
    ids=lambda model: model.id,
)
def test_parameter_counts_follow_from_the_shape(model: Model) -> None:
    query, key = (
        model.hidden_size * model.attention_heads * model.head_size,
        model.hidden_size * model.kv_heads * model.head_size,
    )
    # Attention in and out, three feed-forward matrices, two norms over the width and two over a head.
    layer = (
        2 * query
        + 2 * key
        + 3 * model.hidden_size * model.intermediate_size
        + 2 * model.hidden_size
        + 2 * model.head_size
    )
    embeddings = (1 if model.tied_embeddings else 2) * model.vocabulary * model.hidden_size
    assert model.layers * layer + model.hidden_size + embeddings == model.parameters


def test_brackets_without_end_are_a_mistake_of_the_file() -> None:
    with pytest.raises(BadInputError, match="is nested too deeply"):
        parse("name = " + "[" * 5000)


def test_a_check_names_the_sections_it_reads() -> None:
    def misspelt(servings: object, variants: object) -> Iterator[Mistake]:
        yield Mistake("", servings, "", str(variants))

    with pytest.raises(TypeError, match="takes servings: not a field of Experiment"):
        check(misspelt)
