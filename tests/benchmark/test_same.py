"""One service under two names is never faster than itself, whatever the connection does."""

from __future__ import annotations

import pytest

from scripts import prove_same

pytestmark = pytest.mark.alone


def test_no_connection_makes_a_service_faster_than_itself() -> None:
    for kind, counted in prove_same.outcomes(1).items():
        assert prove_same.false_decisions(counted) == 0, (kind, counted)
        if "KiB buffers" in kind:
            assert counted["withheld"] == 1, "tokens of the plain variant come many at a time"
