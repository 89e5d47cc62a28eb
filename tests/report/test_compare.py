"""Two runs against each other: a change that is there is found, none is found where there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specdec.analysis.compare import compare
from specdec.errors import BadInputError
from specdec.report import terminal, write_change
from specdec.runs.folder import read_run
from tests.report.sample import BASE_STEP, CASES, RUN, records, write_run

LATER = "20261206T180000Z-0b8c11"
FEW = CASES[:3]


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return write_run(tmp_path / RUN, records(cases=FEW, tokens=80))


def _later(tmp_path: Path, **changes: float) -> Path:
    step = BASE_STEP * changes.get("times", 1)
    return write_run(tmp_path / LATER, records(cases=FEW, tokens=80, seed=2, base_step=step, run=LATER))


def test_a_slower_day_is_no_slower_service(first: Path, tmp_path: Path) -> None:
    made = write_change(first, _later(tmp_path, times=1.25), tmp_path / "compare")
    baseline = [row for row in made.change.rows if row.variant == "baseline"]
    assert [row.decision for row in baseline] == ["undecided"] * 3
    for row in baseline:
        assert row.ratio is not None
        assert row.ratio.value == pytest.approx(0.8, rel=0.01)
    assert not {row.decision for row in made.change.rows} & {"helps", "hurts"}
    assert "baseline has the same settings in both runs and ran at 0.80x" in made.change.sentence
    shown = terminal.render_change(made.change)
    assert shown.count("reference") == 3, "the baseline's rows are not among the undecided ones"
    assert "all 3 rows are undecided" in " ".join(shown.split())


def test_what_is_slower_than_the_day_is_found(first: Path, tmp_path: Path) -> None:
    day = records(cases=FEW, tokens=80, seed=2, base_step=1.25 * BASE_STEP, run=LATER)
    slower = [
        replace(line, chunk_times=tuple(1.25 * time for time in line.chunk_times), closed=None)
        if line.variant == "speculative"
        else line
        for line in day
    ]
    made = write_change(first, write_run(tmp_path / LATER, slower), tmp_path / "compare")
    rows = [row for row in made.change.rows if row.variant == "speculative"]
    assert [row.decision for row in rows] == ["hurts"] * 3
    for row in rows:
        assert row.ratio is not None
        assert row.ratio.value == pytest.approx(0.8, rel=0.03)
    assert "slower: speculative on repeat-line (0." in made.change.sentence
    text = terminal.render_change(made.change)
    assert text.count("slower") >= 3
    assert max(map(len, text.splitlines())) <= 100


def test_a_changed_baseline_is_no_reference(first: Path, tmp_path: Path) -> None:
    own, later = read_run(first), read_run(_later(tmp_path, times=0.8))
    serving = {**later.manifest.configuration["serving"], "tensor_parallel_degree": 64}
    changed = replace(
        later,
        manifest=replace(later.manifest, configuration={**later.manifest.configuration, "serving": serving}),
    )
    change = compare(own, changed)
    assert change.reference is None
    assert {row.decision for row in change.rows} == {"undecided"}
    assert "cannot be told apart from one of the day" in change.sentence


def test_same_services_again_are_not_called_different(first: Path, tmp_path: Path) -> None:
    change = compare(read_run(first), read_run(_later(tmp_path)))
    assert not {row.decision for row in change.rows} & {"helps", "hurts"}
    assert "faster" not in change.sentence
    assert "slower" not in change.sentence


def test_files_are_named_after_both_and_trace_into_both(first: Path, tmp_path: Path) -> None:
    made = write_change(first, _later(tmp_path), tmp_path / "compare")
    assert made.html.name == f"{RUN}--{LATER}.html"
    document = json.loads(made.numbers.read_text(encoding="utf-8"))
    assert [run["run"] for run in document["runs"]] == [RUN, LATER]
    for run in document["runs"]:
        keys = {number["key"] for number in run["numbers"]}
        assert "tpot/baseline/numbers" in keys
    again = write_change(first, tmp_path / LATER, tmp_path / "again")
    assert again.html.read_bytes() == made.html.read_bytes()


def test_what_else_differs_is_listed(first: Path, tmp_path: Path) -> None:
    environment = {"engine": "another", "machine": {"cores": 4}}
    later = write_run(tmp_path / LATER, records(cases=FEW, tokens=40, run=LATER), environment=environment)
    made = write_change(first, later, tmp_path / "compare")
    markdown = made.markdown.read_text(encoding="utf-8")
    assert "| machine.cores | `2` | `4` |" in markdown
    assert "| engine | `simulated` | `another` |" in markdown


def ran(kernel: str, driver: str, cni: str) -> dict[str, Any]:
    """What the pod keeps of the node and the cluster."""
    node = {"kernel": kernel, "ami_release": "1.35.8-20260917"}
    server = {"image": "vllm@sha256:a", "libraries": {"driver": driver}, "node": node}
    return {"servers": {"baseline": server}, "addons": {"vpc-cni": cni}}


def test_another_node_image_is_among_what_differs(tmp_path: Path) -> None:
    """A faster day may be a newer driver."""
    earlier, later = (
        write_run(tmp_path / run, records(cases=FEW, tokens=40, run=run), environment={"ran": there})
        for run, there in (
            (RUN, ran("6.12.40", "2.24.7.0", "v1.22.4-eksbuild.3")),
            (LATER, ran("6.12.52", "2.25.1.0", "v1.22.4-eksbuild.3")),
        )
    )
    made = write_change(earlier, later, tmp_path / "compare")
    differences = made.markdown.read_text(encoding="utf-8").partition("What else differs")[2]
    for name, values in (
        ("ran.servers.baseline.node.kernel", ("6.12.40", "6.12.52")),
        ("ran.servers.baseline.libraries.driver", ("2.24.7.0", "2.25.1.0")),
    ):
        (row,) = [line for line in differences.splitlines() if name in line]
        assert all(value in row for value in values)
    assert "ran.addons.vpc-cni" not in differences, "what is the same is not listed"


def test_runs_without_a_common_row_are_refused(first: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / LATER, records(cases=CASES[5:6], tokens=20, run=LATER))
    with pytest.raises(BadInputError, match="no variant and test case in common"):
        compare(read_run(first), read_run(other))


def test_incomplete_run_is_refused(first: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / LATER, records(cases=FEW, tokens=20, run=LATER), status="interrupted")
    with pytest.raises(BadInputError, match="is interrupted"):
        compare(read_run(first), read_run(other))


def test_same_texts_under_other_prompt_names_do_not_pair(first: Path, tmp_path: Path) -> None:
    renamed = [
        replace(line, prompt=f"new-{line.prompt}") for line in records(cases=FEW, tokens=20, run=LATER)
    ]
    change = compare(read_run(first), read_run(write_run(tmp_path / LATER, renamed)))
    assert {row.decision for row in change.rows} == {"undecided"}
    assert {row.ratio for row in change.rows} == {None}


def test_other_prompts_under_the_same_names_are_not_paired(first: Path, tmp_path: Path) -> None:
    own = read_run(first)
    other = replace(
        own,
        records=tuple(
            replace(record, prompt_tokens=(record.prompt_tokens or 0) + 1) for record in own.records
        ),
    )
    with pytest.raises(BadInputError, match="asked other prompts"):
        compare(own, other)
