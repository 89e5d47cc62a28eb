"""The report of a run of several loads: what it says, its pictures, and where its numbers come from."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest
from click.testing import CliRunner

from specdec.analysis.compare import compare
from specdec.commands.report import command as report
from specdec.report import Written, write
from specdec.runs.folder import read_run
from specdec.runs.record import RequestRecord
from tests.analysis import loads as simulated
from tests.report.sample import write_run

SERVICES = {"baseline": simulated.PLAIN, "speculative": simulated.DRAFTED}


@pytest.fixture(scope="module")
def records() -> list[RequestRecord]:
    return simulated.run(SERVICES, 3, loads=(1.0, 2.0, 4.0, 8.0, 16.0))


@pytest.fixture(scope="module")
def written(records: list[RequestRecord], tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write(write_run(tmp_path_factory.mktemp("runs") / "run", records), {"tpot_ms": 60.0})


@pytest.fixture(scope="module")
def numbers(written: Written) -> dict[str, dict[str, Any]]:
    found = json.loads(written.numbers.read_text(encoding="utf-8"))["numbers"]
    return {number["key"]: number for number in found}


def tpots(records: list[RequestRecord], lines: list[int]) -> dict[tuple[str, str, int], float]:
    own = [records[line - 1] for line in lines]
    return {
        (r.variant, r.prompt, r.repeat): (r.chunk_times[-1] - r.chunk_times[0])
        / ((r.chunk_tokens or (0,))[-1] - (r.chunk_tokens or (0,))[0])
        for r in own
    }


def test_a_ratio_leads_to_the_lines_of_its_load(
    numbers: dict[str, dict[str, Any]], records: list[RequestRecord]
) -> None:
    number = numbers["load/speculative/open/4"]
    assert {records[int(line) - 1].load for line in number["lines"]} == {4.0}
    times = tpots(records, number["lines"])
    prompts: dict[str, list[float]] = {}
    for (variant, prompt, repeat), value in times.items():
        if variant == "baseline":
            prompts.setdefault(prompt, []).append(log(value / times["speculative", prompt, repeat]))
    assert number["value"] == pytest.approx(exp(fmean(fmean(v) for v in prompts.values())))


def test_the_other_sections_are_about_the_lowest_load(
    numbers: dict[str, dict[str, Any]], records: list[RequestRecord]
) -> None:
    number = numbers["tpot/speculative/case"]
    assert {records[int(line) - 1].load for line in number["lines"]} == {1.0}
    assert number["value"] == pytest.approx(median(tpots(records, number["lines"]).values()))


def test_the_answer_is_about_load(written: Written) -> None:
    html, text = (path.read_text(encoding="utf-8") for path in (written.html, written.markdown))
    for page in (html, text):
        assert "Use speculation up to" in page
        assert "requests in flight" in page
    assert 'id="loads"' in html
    assert 'id="service"' in html
    assert "## Up to which load does it pay?" in text


def test_the_advice_on_windows_over_load_stands_in_the_report(
    written: Written, numbers: dict[str, dict[str, Any]]
) -> None:
    html, text = (path.read_text(encoding="utf-8") for path in (written.html, written.markdown))
    assert written.verdict.loads is not None
    (advice,) = written.verdict.loads.windows
    assert 'id="load-windows"' in html
    assert "Predicted speed-up of the best window over load, 5% to 95%" in html
    assert "## Which window at which load?" in text
    for row in advice.rows:
        number = numbers[f"load_window/speculative/{row.load:g}/sure"]
        assert number["value"] == row.confidence


def test_the_pictures_say_what_they_show(written: Written) -> None:
    html = written.html.read_text(encoding="utf-8")
    assert "Speed-up over load: open prompts, with interval" in html
    # The crossing stands in the picture with its interval along the load.
    assert "where it turns: 1 at " in html
    assert "Goodput over load" in html
    assert "Tokens per second for a user and for the service; labels: requests in flight" in html


def test_limits_of_the_command_line_are_the_objective(records: list[RequestRecord], tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", records)
    without = CliRunner().invoke(report, [str(folder)], standalone_mode=False)
    assert without.exit_code == 0, without.output
    assert "Within the objective" not in without.output
    with_limits = CliRunner().invoke(report, [str(folder), "--tpot-ms", "51"], standalone_mode=False)
    assert "TPOT <= 51 ms) speculative carries" in " ".join(with_limits.output.split())
    assert "95% with TPOT &lt;= 51 ms" in (folder / "report.html").read_text(encoding="utf-8")


def test_two_runs_of_several_loads_are_compared_load_by_load(
    records: list[RequestRecord], tmp_path: Path
) -> None:
    first = write_run(tmp_path / "first", records)
    slower = [
        replace(r, chunk_times=tuple(2 * t for t in r.chunk_times))
        if r.concurrency == 8 and r.variant == "speculative"
        else r
        for r in records
        if r.concurrency > 1
    ]
    change = compare(read_run(first), read_run(write_run(tmp_path / "second", slower)))
    assert [(row.variant, row.name) for row in change.rows if row.variant == "speculative"] == [
        ("speculative", f"case at {load}") for load in (2, 4, 8, 16)
    ]
    decided = {row.name: row for row in change.rows if row.variant == "speculative"}
    assert decided["case at 8"].decision == "hurts"
    ratio = decided["case at 8"].ratio
    assert ratio is not None
    assert ratio.value == pytest.approx(0.5)
    assert decided["case at 4"].decision == "no difference"


def test_a_terminal_shows_every_load(records: list[RequestRecord], tmp_path: Path) -> None:
    shown = CliRunner().invoke(report, [str(write_run(tmp_path / "run", records))], standalone_mode=False)
    rows = [line.split() for line in shown.output.splitlines() if line.startswith("open ")]
    assert [row[1] for row in rows] == ["1", "2", "4", "8", "16"]


def test_a_set_of_several_lengths_is_shown_by_length(tmp_path: Path) -> None:
    services = {"baseline": simulated.PLAIN, "speculative": simulated.DRAFTED}
    records = [
        replace(record, test_case=f"log-{length}", prompt_tokens=length, block=record.block + length)
        for length in (2000, 500, 8000)
        for record in simulated.run(services, length, loads=(1.0,))
    ]
    page = write(write_run(tmp_path / "run", records)).markdown.read_text(encoding="utf-8")
    table = page.partition("## Does the length of the prompt matter?")[2].partition("\n## ")[0]
    lengths = [line.split("|")[2].strip() for line in table.splitlines() if line.startswith("| open")]
    assert lengths == ["500", "2000", "8000"]
    one = [replace(record, prompt_tokens=500) for record in simulated.run(services, 1, loads=(1.0,))]
    page = write(write_run(tmp_path / "one", one)).markdown.read_text(encoding="utf-8")
    assert "Does the length of the prompt matter?" not in page
