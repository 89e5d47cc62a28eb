"""A server that holds small packets back until the one before is acknowledged (no TCP_NODELAY)."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from specdec.benchmark import http1
from specdec.benchmark.plan import Plan
from specdec.golden.settings import Dialect, Settings
from specdec.metrics.ttft import ttft

from .conftest import MakePlan, Measure, Start

pytestmark = pytest.mark.alone

HELD = Settings(ttft=0.005, step=0.01, dialect=Dialect(nodelay=False))

DELAY = 0.03
"""Seconds: less than a kernel waits with an acknowledgement, more than a first token here takes."""


def first_tokens(measure: Measure, plan: Plan, number: int) -> float:
    """Median TTFT of a run; its later requests are on connections that were used before."""
    _, records = measure(replace(plan, run=f"20261129T12000{number}Z-abcdef"))
    return median(ttft(record) or 9 for record in records)


@pytest.mark.skipif(not http1.QUICK_ACKNOWLEDGEMENTS, reason="this system has no TCP_QUICKACK")
def test_a_first_token_does_not_wait_for_an_acknowledgement(
    start: Start, make_plan: MakePlan, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = start(HELD)
    plan = make_plan({"baseline": url}, count=6, repeats=2, concurrency=2, output_tokens=8)
    # A busy machine is late too, so that the best of five counts.
    assert min(first_tokens(measure, plan, number) for number in range(5)) < DELAY
    monkeypatch.setattr(http1, "QUICK_ACKNOWLEDGEMENTS", False)
    assert first_tokens(measure, plan, 5) > DELAY, "without it the token waits, or the test shows nothing"
