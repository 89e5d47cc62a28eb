"""What stops a forgotten node, and what says that nothing does."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from specdec.preflight.guards import judge_guards
from specdec.preflight.platform import judge_kubernetes
from tests.operate.conftest import experiment_with

NOW = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("guards", "expected"),
    [
        ("", [("ok", "every 12 hours")]),
        ("scale_down_every_hours = 0", [("warning", "nothing stops a forgotten node")]),
        (
            'scale_down_every_hours = 0\nscale_down_at = "2026-12-02T00:00:00"',
            [("ok", "2026-12-02T00:00:00")],
        ),
        (
            'scale_down_at = "2026-11-30T00:00:00"',
            [("blocker", "is in the past: it is now 2026-12-01T03:00:00 UTC")],
        ),
        (
            'scale_down_every_hours = 0\nscale_down_at = "2026-11-30T00:00:00"',
            [("blocker", "is in the past"), ("warning", "nothing stops")],
        ),
    ],
)
def test_what_check_says_of_the_guards(guards: str, expected: list[tuple[str, str]]) -> None:
    experiment = experiment_with(("[capacity]", f"[guards]\n{guards}\n\n[capacity]"))
    findings = list(judge_guards(experiment, NOW))
    assert [finding.level for finding in findings] == [level for level, _ in expected]
    for finding, (_, words) in zip(findings, expected, strict=True):
        assert words in finding.what
        assert finding.remedy or finding.level == "ok"


@pytest.mark.parametrize(
    ("today", "level"),
    [(date(2026, 12, 26), "ok"), (date(2026, 12, 27), "warning"), (date(2027, 3, 27), "warning")],
)
def test_the_end_of_standard_support_is_told_90_days_before(today: date, level: str) -> None:
    found = judge_kubernetes({"1.35": "STANDARD_SUPPORT"}, wanted="1.35", region="us-east-2", today=today)
    assert found.level == level
    assert level == "ok" or "ends on 2027-03-27" in found.what
