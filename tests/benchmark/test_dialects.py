"""Every service that the golden server imitates is counted right, or not at all."""

from __future__ import annotations

import re

import pytest

from scripts import write_dialects
from specdec.golden.dialects import DIALECTS

pytestmark = pytest.mark.alone


def test_no_dialect_gets_a_wrong_time_per_token() -> None:
    page = write_dialects.PAGE.read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", page, re.MULTILINE))
    assert told.keys() == DIALECTS.keys(), "run scripts/write_dialects.py"
    for name, row in write_dialects.rows().items():
        for seen in (row.plain, row.speculative):
            assert seen.error is None or seen.error <= write_dialects.EXACT, (name, row)
            # Without processor time the first events come together, and then no token has a time.
            assert seen.source in (*re.findall(r"[a-z]+-[a-z]+", told[name]), "total-only"), (name, row)
        assert all(f"`{field}`" in told[name] for field in row.dropped)
