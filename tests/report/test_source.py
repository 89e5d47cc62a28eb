"""A report is written only about a run that ended and was not changed since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec.errors import EXIT_BAD_INPUT, BadInputError
from specdec.runs.folder import latest, read_run
from tests.report.sample import CASES, RUN, records, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / RUN, records(cases=CASES[:1], tokens=20, repeats=1))


def _refusal(folder: Path) -> str:
    with pytest.raises(BadInputError) as caught:
        read_run(folder)
    assert caught.value.exit_code == EXIT_BAD_INPUT
    assert all(mistake.remedy for mistake in caught.value.mistakes)
    return str(caught.value)


def test_line_numbers_are_those_of_the_file(run: Path) -> None:
    lines = (run / "records.jsonl").read_text(encoding="utf-8").splitlines()
    read = read_run(run)
    assert len(read.records) == len(lines)
    assert read.records[4].to_json() == lines[4]


def test_missing_folder(tmp_path: Path) -> None:
    assert "is not a folder" in _refusal(tmp_path / "absent")


def test_empty_folder(tmp_path: Path) -> None:
    assert "neither records.jsonl nor manifest.json" in _refusal(tmp_path)


def test_run_that_did_not_end(run: Path) -> None:
    (run / "manifest.json").unlink()
    assert "the run was killed or is still going on" in _refusal(run)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 1}'])
def test_manifest_that_is_none(run: Path, text: str) -> None:
    (run / "manifest.json").write_text(text, encoding="utf-8")
    assert "is not a run manifest" in _refusal(run)


def test_manifest_of_another_schema(run: Path) -> None:
    raw = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    (run / "manifest.json").write_text(json.dumps(raw | {"schema": 9}), encoding="utf-8")
    message = _refusal(run)
    assert "is a manifest of schema 9" in message
    assert "Use the version of specdec that wrote the run" in message


def test_records_missing(run: Path) -> None:
    (run / "records.jsonl").unlink()
    assert "records.jsonl" in _refusal(run)


def test_broken_line_is_named(run: Path) -> None:
    lines = (run / "records.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    lines[2] = lines[2][:30] + "\n"
    (run / "records.jsonl").write_text("".join(lines), encoding="utf-8")
    assert "is broken: 3:" in _refusal(run)


def test_records_of_another_schema(run: Path) -> None:
    text = (run / "records.jsonl").read_text(encoding="utf-8").replace('"schema":1', '"schema":2')
    (run / "records.jsonl").write_text(text, encoding="utf-8")
    message = _refusal(run)
    assert "1: is a record of schema 2" in message
    assert "Use the version of specdec that wrote the run" in message


def _rewrite(run: Path, record: dict[str, object]) -> None:
    """Puts another second record into the run, with a manifest that was written for it."""
    path = run / "records.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[1] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    _rewrite_manifest(run, records_sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def _rewrite_manifest(run: Path, **changes: object) -> None:
    path = run / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"output_tokens": "many"}, "output_tokens = 'many': input should be a valid integer"),
        ({"output_tokens": True}, "output_tokens = True: input should be a valid integer"),
        ({"sent": None}, "sent = None: input should be a valid number"),
        ({"text": 7}, "text = 7: input should be a valid string"),
        ({"outcome": "fine"}, "outcome = 'fine': input should be 'ok', "),
        ({"chunk_times": None}, "chunk_times = None: input should be a valid array"),
        ({"chunk_times": [1, "2"]}, "chunk_times[1] = '2': input should be a valid number"),
        ({"chunk_times": "absent"}, "chunk_tokens has 20 values, and chunk_times has 0"),
        ({"chunk_tokens": [1, 2]}, "chunk_tokens has 2 values, and chunk_times has 20"),
        ({"chunk_steps": [1, 2]}, "chunk_steps has 2 values, and chunk_times has 20"),
        ({"pieces": [1, 2]}, "pieces have 3 characters, and text has"),
        ({"chunk_times": [0] * 20}, "are not ascending seconds above 0"),
        ({"chunk_times": [0.2, float("nan"), *[0.3] * 18]}, "are not ascending seconds above 0"),
        ({"chunk_tokens": [1] * 20}, "do not rise with every chunk"),
        ({"server": {"drafts": 1}}, "server.draft_tokens is missing"),
        ({"server": 3}, "server = 3: input should be an object"),
        ({"colour": "red"}, "colour is not known"),
        ({"run": "absent"}, "run is missing"),
    ],
    ids=str,
)
def test_a_record_of_wrong_types_or_lengths_is_named_by_line_and_field(
    run: Path, changes: dict[str, object], said: str
) -> None:
    # The first is of the baseline: one token per chunk.
    plain = json.loads((run / "records.jsonl").read_text(encoding="utf-8").splitlines()[0])
    _rewrite(run, {name: value for name, value in (plain | changes).items() if value != "absent"})
    message = _refusal(run)
    assert "records.jsonl" in message
    assert "is broken: 2: " in message
    assert said in message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"variants": 7}, "variants = 7: input should be an object"),
        ({"variants": {"baseline": 7}}, "variants.baseline = 7: input should be an object"),
        (
            {"variants": {"baseline": {"window": "wide"}}},
            "variants.baseline.window = 'wide': input should be a valid integer",
        ),
        ({"configuration": 7}, "configuration = 7: input should be an object"),
        ({"environment": None}, "environment = None: input should be an object"),
        ({"status": "fine"}, "status = 'fine': input should be 'complete', "),
        ({"counts": {"baseline": {"ok": "many"}}}, "counts.baseline.ok = 'many': input should be"),
    ],
    ids=str,
)
def test_a_manifest_of_wrong_types_is_named_by_field(
    run: Path, changes: dict[str, object], said: str
) -> None:
    _rewrite_manifest(run, **changes)
    message = _refusal(run)
    assert "is not a run manifest" in message
    assert said in message


def test_a_manifest_nested_without_end(run: Path) -> None:
    (run / "manifest.json").write_text("[" * 5000, encoding="utf-8")
    assert "is not a run manifest: is invalid JSON: recursion limit exceeded" in _refusal(run)


def _cut_short(text: str) -> str:
    return text[:-5]


def _edited(text: str) -> str:
    return text.replace("0.2", "0.1", 1)


@pytest.mark.parametrize("change", [_cut_short, _edited])
def test_records_that_were_changed(run: Path, change: Callable[[str], str]) -> None:
    path = run / "records.jsonl"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert "records_sha256 differs" in _refusal(run)


def test_latest_is_the_newest_finished_run(tmp_path: Path) -> None:
    few = records(cases=CASES[:1], tokens=5, repeats=1)
    for name in ("20261101T000000Z-aaaaaa", "20261129T000000Z-bbbbbb", "20261201T000000Z-cccccc"):
        write_run(tmp_path / name, few)
    (tmp_path / "20261201T000000Z-cccccc" / "manifest.json").unlink()
    assert latest(tmp_path).name == "20261129T000000Z-bbbbbb"


def test_latest_of_unfinished_runs_names_them(tmp_path: Path) -> None:
    write_run(tmp_path / RUN, records(cases=CASES[:1], tokens=5, repeats=1))
    (tmp_path / RUN / "manifest.json").unlink()
    with pytest.raises(BadInputError, match=f"no finished run; without a manifest: {RUN}"):
        latest(tmp_path)


def test_latest_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no run"):
        latest(tmp_path / "runs")
