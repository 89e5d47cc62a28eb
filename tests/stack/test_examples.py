"""Two examples pass every gate, and with them what no example shows. All examples go through the same gates,
and into the embedded account, by ``scripts/check_examples.py``.
"""

from pathlib import Path

import pytest

from specdec.experiment.reading import parse
from tests.stack.examples import failures
from tests.stack.test_isolated import NETWORK

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("file", "edits"),
    [
        # One chip, a Capacity Block, a token, one service after the other.
        ("one-node.toml", ()),
        # No internet, and several clients that meet.
        (
            "eagle3.toml",
            (("[serving]", f"{NETWORK}[serving]"), ("concurrency = 2", "concurrency = 2\nclients = 2")),
        ),
    ],
    ids=["one-node", "closed, several clients"],
)
def test_an_example_passes_every_gate(file: str, edits: tuple[tuple[str, str], ...]) -> None:
    text = (ROOT / "examples" / file).read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    assert list(failures(parse(text))) == []
