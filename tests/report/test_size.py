"""A large run's report stays quick and small. At full size: scripts/measure_report.py."""

from __future__ import annotations

import pytest

from scripts.measure_report import cost

pytestmark = [pytest.mark.alone, pytest.mark.slow]


@pytest.mark.parametrize(
    ("cases", "prompts", "loops", "megabytes"),
    # In loops of two million steps, so that a slow or busy machine is no larger run: 0.1 s each where it is
    # idle. They took 21 and 22 and 101 and 85 MB when this was written, beside other work.
    [(10, 100, 40, 120), (60, 4, 40, 105)],
)
def test_a_fifth_of_a_large_run(cases: int, prompts: int, loops: float, megabytes: float) -> None:
    took = cost(cases, prompts)
    assert took.seconds < loops * took.loop
    assert took.megabytes < megabytes
