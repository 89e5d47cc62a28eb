"""A scheduled comparison fails on what got worse, and on nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specdec import __version__
from specdec.cli import cli
from specdec.errors import EXIT_FAILED, EXIT_OK, BadInputError
from specdec.report import write_change
from specdec.runs.record import RequestRecord
from tests.report.sample import BASE_STEP, CASES, RUN, records, write_run

LATER = "20261206T180000Z-0b8c11"
Change = Callable[[RequestRecord], RequestRecord]


def _speculative(change: Change) -> Change:
    return lambda line: change(line) if line.variant == "speculative" else line


def _slower(line: RequestRecord) -> RequestRecord:
    return replace(line, chunk_times=tuple(1.25 * time for time in line.chunk_times), closed=None)


def _other_text(line: RequestRecord) -> RequestRecord:
    return replace(line, text=f"{line.text[:60]} smaller {line.text[60:]}")


def _runs(tmp_path: Path, change: Change, *, base_step: float = BASE_STEP) -> Path:
    few = CASES[:3]
    write_run(tmp_path / RUN, records(cases=few, tokens=80))
    later: Sequence[RequestRecord] = records(cases=few, tokens=80, seed=2, run=LATER, base_step=base_step)
    write_run(tmp_path / LATER, [change(line) for line in later])
    return tmp_path


def _compared(runs: Path, *options: str) -> Result:
    arguments = ["report", RUN, LATER, "--runs", str(runs), *options]
    return CliRunner().invoke(cli, arguments, standalone_mode=False)


def test_a_slower_variant_fails_the_comparison(tmp_path: Path) -> None:
    runs = _runs(tmp_path, _speculative(_slower))
    compared = _compared(runs, "--fail-on-regression")
    assert compared.return_value == EXIT_FAILED
    assert compared.stdout.count("worse: speculative on") == 3
    assert _compared(runs).return_value == EXIT_OK, "without the option a comparison only tells"


def test_a_text_that_changed_fails_the_comparison(tmp_path: Path) -> None:
    compared = _compared(_runs(tmp_path, _speculative(_other_text)), "--fail-on-regression", "--json")
    assert compared.return_value == EXIT_FAILED
    worse = json.loads(compared.stdout)["regressions"]
    assert {entry["row"] for entry in worse} == {case.name for case in CASES[:3]}
    assert all("no longer counts: the texts differ" in entry["says"] for entry in worse)


def test_a_row_that_never_counted_is_no_regression(tmp_path: Path) -> None:
    runs = _runs(tmp_path, _speculative(_other_text))
    wrong = [_speculative(_other_text)(line) for line in records(cases=CASES[:3], tokens=80)]
    write_run(tmp_path / RUN, wrong)
    assert _compared(runs, "--fail-on-regression").return_value == EXIT_OK


@pytest.mark.parametrize("pace", [1.0, 1.25, 0.8])
def test_another_day_is_no_regression(tmp_path: Path, pace: float) -> None:
    compared = _compared(
        _runs(tmp_path, lambda line: line, base_step=pace * BASE_STEP), "--fail-on-regression"
    )
    assert compared.return_value == EXIT_OK
    assert "worse" not in compared.stdout


def test_undecided_is_no_regression_and_is_said(tmp_path: Path) -> None:
    # Half of the prompts got slower and half faster: nothing is shown.
    chance = {f"{case.name}-{number}": number % 2 for case in CASES[:3] for number in range(8)}

    def mixed(line: RequestRecord) -> RequestRecord:
        pace = 1.3 if chance[line.prompt] else 0.77
        return replace(line, chunk_times=tuple(pace * time for time in line.chunk_times), closed=None)

    runs = _runs(tmp_path, _speculative(mixed))
    assert _compared(runs, "--fail-on-regression").return_value == EXIT_OK
    page = (runs / "compare" / f"{RUN}--{LATER}.md").read_text(encoding="utf-8")
    assert "3 rows are undecided, which is no regression." in page


def test_a_comparison_that_cannot_fail_is_refused(tmp_path: Path) -> None:
    runs = _runs(tmp_path, lambda line: line)
    path = runs / LATER / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["configuration"]["serving"]["tensor_parallel_degree"] = 16
    path.write_text(json.dumps(manifest), encoding="utf-8")
    compared = _compared(runs, "--fail-on-regression")
    assert isinstance(compared.exception, BadInputError)
    assert "no baseline with the same settings" in str(compared.exception)
    assert _compared(runs).return_value == EXIT_OK


def test_one_run_has_no_regression() -> None:
    result = CliRunner().invoke(cli, ["report", "--fail-on-regression", RUN], standalone_mode=False)
    assert isinstance(result.exception, BadInputError)


def test_the_foot_names_the_versions(tmp_path: Path) -> None:
    runs = _runs(tmp_path, lambda line: line)
    path = runs / LATER / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["environment"]["specdec"] = "9.8.7"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    made = write_change(runs / RUN, runs / LATER, runs / "compare")
    said = f"a specdec that the run does not name and specdec 9.8.7, compared with specdec {__version__}."
    assert said in made.html.read_text(encoding="utf-8")
    assert said in made.markdown.read_text(encoding="utf-8")
    assert "| specdec | n/a | `9.8.7` |" in made.markdown.read_text(encoding="utf-8")
    document = json.loads(made.numbers.read_text(encoding="utf-8"))
    assert [run["measured_with"] for run in document["runs"]] == [None, "9.8.7"]
