"""The report says where a comparison measures more than the draft."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec.analysis.judge import judge
from specdec.experiment.reading import parse
from tests.analysis.simulate import manifest, record

ROOT = Path(__file__).parents[2]
TUNED = (ROOT / "examples" / "tuned-baseline.toml").read_text(encoding="utf-8")
CHIP = (ROOT / "examples" / "five-dollars.toml").read_text(encoding="utf-8")
ASYNC = ('service = "llama-vllm"', 'service = "llama-vllm"\nasync_scheduling = true')


@pytest.mark.parametrize(
    ("text", "edits", "words"),
    [
        (CHIP, (), None),
        (CHIP, (ASYNC,), "eagle3 differs from baseline in more than the draft: async_scheduling False"),
        (TUNED, (), None),
        (
            TUNED,
            (('service = "qwen-tuned-vllm"\ntensor_parallel_degree = 64', 'service = "qwen-tuned-vllm"'),),
            "tuned-speculative differs from baseline in more than the draft: tensor_parallel_degree 64",
        ),
    ],
    ids=["alike", "async", "each has its baseline", "one has none"],
)
def test_a_variant_that_differs_in_more_than_the_draft_is_named(
    text: str, edits: tuple[tuple[str, str], ...], words: str | None
) -> None:
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    experiment = parse(text)
    variants = {
        variant.name: {"window": variant.window, "url": variant.name} if variant.window else {}
        for variant in experiment.variants
    }
    records = [
        record(variant.name, "p", times=[0.1, 0.2], counts=[1, 2], block=0) for variant in experiment.variants
    ]
    run = manifest(variants, configuration=experiment.resolved())
    said = [line for line in judge(run, records).caveats if "in more than the draft" in line]
    assert len(said) == (words is not None)
    assert words is None or said[0].startswith(words)
