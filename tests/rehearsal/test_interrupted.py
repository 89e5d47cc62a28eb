"""A rehearsal that its user ends while it measures. It measures no time, so other tests run meanwhile."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from .whole import children_of, start

pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)
def test_ctrl_c_while_measuring_leaves_nothing_running_and_keeps_the_records(
    npm_packages: Path, tmp_path: Path
) -> None:
    process = start(tmp_path, "--test-case", "story")
    try:
        deadline = time.monotonic() + 400
        while time.monotonic() < deadline and process.poll() is None:
            records = list((tmp_path / "runs").glob("*/records.jsonl"))
            if records and records[0].read_text(encoding="utf-8").count("\n") >= 3:
                break
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 130, said
    folder = next((tmp_path / "runs").glob("2*"))
    assert json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["status"] == "interrupted"
    assert (folder / "records.jsonl").read_text(encoding="utf-8").count("\n") >= 3
    assert f"the records until then are in {folder}" in said
    assert children_of(f"XDG_STATE_HOME={tmp_path / 'state'}") == []
