"""An example passes every gate, without a way to the internet too. All examples go through the same gates,
and into the embedded account, by ``scripts/check_examples.py``.
"""

from pathlib import Path

import pytest

from specdec.experiment.reading import parse
from tests.stack.examples import failures, of_objects
from tests.stack.synthesis import experiment, template
from tests.stack.test_isolated import NETWORK

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CLIENTS = (('lanes = ["exact", "llmperf"]', 'lanes = ["exact"]\nclients = 2'),)


def test_an_example_passes_every_gate() -> None:
    """The one that differs most from the default: one chip, a Capacity Block, a token, one service after the
    other; and closed, which no example is.
    """
    text = (ROOT / "examples" / "one-node.toml").read_text(encoding="utf-8")
    assert "[serving]" in text
    assert list(failures(parse(text.replace("[serving]", f"{NETWORK}[serving]", 1)))) == []


def test_objects_of_several_clients_agree() -> None:
    shared = experiment(*CLIENTS)
    assert shared.benchmark.clients == 2
    (region,) = shared.regions
    assert list(of_objects(template(*CLIENTS), shared, region)) == []
