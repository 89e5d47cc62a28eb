"""A large run's report stays quick and small. At full size: scripts/measure_report.py."""

from __future__ import annotations

import pytest

from scripts.measure_report import cost

pytestmark = [pytest.mark.alone, pytest.mark.slow]


@pytest.mark.parametrize(
    ("cases", "prompts", "seconds", "megabytes"),
    [
        # 20,000 requests may take 8 s and 200 MB, 300 test cases 20 s, and a process 1 s by itself.
        (10, 100, 1 + 8 / 5, 150),
        (60, 4, 1 + 20 / 5, 150),
    ],
)
def test_a_fifth_of_a_large_run(cases: int, prompts: int, seconds: float, megabytes: float) -> None:
    took = cost(cases, prompts)
    assert took.seconds < seconds
    assert took.megabytes < megabytes
