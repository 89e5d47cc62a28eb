"""The report says where its verdict holds, and what the model expects elsewhere."""

from __future__ import annotations

from pathlib import Path

from specdec.analysis.judge import judge
from specdec.report.build import build
from specdec.report.content import Section
from specdec.runs.folder import read_run
from tests.report.sample import CASES, Case, records, write_run

ON_AWS = {"stack": "qwen3-specdec-us-east-2", "place": "benchmark pod"}


def made(folder: Path, cases: tuple[Case, ...], environment: dict[str, str] | None = None) -> Section | None:
    run = read_run(write_run(folder, records(cases=cases, tokens=60), environment=environment))
    content, _ = build(run, judge(run.manifest, run.records))
    return next((section for section in content.sections if section.key == "elsewhere"), None)


def rows(section: Section) -> dict[str, tuple[str, ...]]:
    (table,) = section.tables
    return {row[0].text: tuple(entry.text for entry in row[1:]) for row in table.rows}


def test_the_verdict_names_the_configuration_it_holds_for(tmp_path: Path) -> None:
    section = made(tmp_path / "run", CASES[:3], ON_AWS)
    assert section is not None
    words = str(section.paragraphs[0])
    for part in (
        "trn2.48xlarge with LNC 2 on vllm-0.9.1-sdk-2.26.1, at 4 in flight",
        "speculative: 8 devices, tensor parallel degree 32, up to 4 at once",
    ):
        assert part in words
    told = rows(section)
    # One chip loads draft and target of this stack into more host memory than it has.
    assert "trn2.48xlarge (here)" in told
    assert "trn2.3xlarge" not in told
    assert told["trn2u.48xlarge"][1] == "speculative"
    assert all(row[4] == "would pay" for row in told.values()), told


def test_an_acceptance_below_the_break_even_would_not_pay(tmp_path: Path) -> None:
    low = (Case("a", "open", 0.02, prompts=6), Case("b", "open", 0.02, prompts=6))
    section = made(tmp_path / "run", low, ON_AWS)
    assert section is not None
    assert {row[4] for row in rows(section).values()} == {"would not pay"}


def test_a_run_on_this_machine_says_nothing_of_accelerators(tmp_path: Path) -> None:
    assert made(tmp_path / "run", CASES[:3]) is None
