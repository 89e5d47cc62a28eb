"""The local pictures show what the deployed dashboard would compute."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.render_dashboards import bodies, draw, samples, shown
from specdec import metrics
from specdec.publish import datums
from tests.publish.runs import record
from tests.publish.test_datums import manifest

pytestmark = pytest.mark.slow


def test_a_panel_is_drawn_from_the_dashboards_own_rows(tmp_path: Path) -> None:
    records = [record(step=0.03), record("speculative", step=0.01)]
    data = samples(datums.of_run(manifest(), records, metrics.ALL, experiment="exp"))
    body = bodies("exp", {"baseline": "b", "speculative": "s"}, {"count": "structured"}, [])["exp"]
    panels = {
        widget["properties"]["title"]: shown(widget["properties"], data)
        for widget in body["widgets"]
        if widget["type"] == "metric"
    }
    ((label, speed_up, _),) = panels["Speed-up: median TPOT of the baseline / of the variant (1 = no gain)"]
    assert (label, speed_up) == ("count · speculative", pytest.approx(3.0))
    assert [value for _, value, _ in panels["TPOT, p50, s"]] == pytest.approx([0.03, 0.01])
    ((label, speed_up, _),) = panels["Speed-up, mean over test cases"]
    assert (label, speed_up) == ("speculative", pytest.approx(3.0))
    ((label, speed_up, _),) = panels["Speed-up by class over runs"]
    assert (label, speed_up) == ("structured · speculative", pytest.approx(3.0))
    assert panels["Parity, lowest test case, %"] == [("speculative", 100.0, "#1f77b4")]
    draw(body, data, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
