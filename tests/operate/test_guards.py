"""What stops a forgotten node, and what says that nothing does."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from specdec.preflight.guards import judge_guards
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
        ('scale_down_at = "2026-11-30T00:00:00"', [("blocker", "is past: it is 2026-12-01T03:00:00 UTC")]),
        (
            'scale_down_every_hours = 0\nscale_down_at = "2026-11-30T00:00:00"',
            [("blocker", "is past"), ("warning", "nothing stops")],
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
