"""The whole rehearsal as a user runs it, on fewer test cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdec.report import write
from specdec.runs.manifest import RunManifest
from specdec.runs.record import read_records

from .whole import children_of, start


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_structured_prompts_gain_and_the_text_stays_the_same(npm_packages: Path, tmp_path: Path) -> None:
    process = start(tmp_path, "--test-case", "repetition", "--test-case", "story")
    printed, said = process.communicate(timeout=800)
    assert process.returncode == 0, said
    folder = next((tmp_path / "runs").glob("2*"))
    verdict = write(folder).verdict
    rows = {row.test_case: row for row in verdict.comparisons if row.best_baseline}
    ratio = rows["repetition"].tpot
    # The interval is as wide as the machine is busy; the gain itself is far above 1 even then.
    assert ratio is not None
    assert ratio.value > 1.2
    assert rows["repetition"].parity.equal == rows["repetition"].parity.total == 6
    steps = {case: verdict.measurement("speculative", case) for case in rows}
    taken = {case: m.acceptance.tokens_per_step for case, m in steps.items() if m and m.acceptance}
    # Greedy text and look-up do not depend on the machine's speed, so these hold on any.
    assert taken["repetition"] > 2
    assert taken["story"] < 1.5
    checked = json.loads((folder / "forecast.json").read_text(encoding="utf-8"))
    assert {row["test_case"]: row["equal"] for row in checked} == {"repetition": 6, "story": 4}
    before = json.loads((folder / "forecast-before.json").read_text(encoding="utf-8"))
    assert {(row["exact"], row["draft"]) for row in before} == {(True, "look-up of 3 tokens")}
    assert verdict.sentence.split()[0] in printed
    assert "metric series" in said
    assert "not real here: Trainium" in said
    manifest = RunManifest.from_json((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest.environment["engine"]["name"] == "llama.cpp"
    records = list(read_records(folder / "records.jsonl"))
    assert all(
        len(record.chunk_times) == record.output_tokens
        for record in records
        if record.variant == "baseline" and not record.warmup
    )
    assert children_of(f"XDG_STATE_HOME={tmp_path / 'state'}") == []
    assert [path.name for path in tmp_path.glob("specdec-rehearsal-*")] == []
