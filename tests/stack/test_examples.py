"""An example passes every gate. All of them go through the same gates, and into the embedded account, by
``scripts/check_examples.py``.
"""

from pathlib import Path

import pytest

from tests.stack.examples import failures

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", ["one-node.toml"])
def test_an_example_passes_every_gate(file: str) -> None:
    """The one that differs most from the default: one chip, a Capacity Block, a token, one service after the
    other.
    """
    assert list(failures(ROOT / "examples" / file)) == []
