"""A run as a table of requests, and two runs that call their variants otherwise."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.hostile_command import Done, specdec
from scripts.hostile_server import Server, serving
from specdec.metrics import TTFT
from specdec.report.table_of_requests import as_csv, columns
from specdec.runs.folder import read_run
from specdec.runs.renamed import renamed


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


def bench(server: Server, folder: Path, first: str, second: str) -> Path:
    (folder / "p.jsonl").write_text(
        "\n".join(json.dumps({"prompt": f"p{n}", "id": f'a,{n}"b'}) for n in range(4))
    )
    before = set(folder.glob("runs/*"))
    targets = ("--target", f"{first}={server.url}/a", "--target", f"{second}={server.url}/b")
    short = ("--repeats", "1", "--warmup", "1", "--output-tokens", "4", "--prompts", "p.jsonl")
    assert specdec("bench", *targets, *short, cwd=folder).returncode == 0
    (run,) = set(folder.glob("runs/2*")) - before
    return run


def test_every_measured_request_is_a_row(server: Server, tmp_path: Path) -> None:
    run = read_run(bench(server, tmp_path, "baseline", "fast"))
    done = specdec("report", str(run.folder), "--requests", "r.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "r.csv").read_bytes().decode()
    assert text == as_csv(run)
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    measured = [record for record in run.records if not record.warmup]
    assert len(rows) == len(measured) == 8
    assert len(set(columns())) == len(columns())
    for row, record in zip(rows, measured, strict=True):
        assert (row["variant"], row["prompt"], row["outcome"]) == (record.variant, record.prompt, "ok")
        assert float(row["time_to_first_token_seconds"]) == pytest.approx(TTFT.of(record), rel=1e-6)
        assert row["rate"] == ""


def compare(folder: Path, first: Path, second: Path, *renames: str) -> Done:
    options = [part for name in renames for part in ("--rename", name)]
    return specdec("report", str(first), str(second), *options, cwd=folder)


def test_runs_of_other_names_are_compared_by_a_mapping(server: Server, tmp_path: Path) -> None:
    first, second = bench(server, tmp_path, "plain", "k7"), bench(server, tmp_path, "base", "draft-7")
    refused = compare(tmp_path, first, second)
    assert refused.returncode == 2
    assert "in common" in refused.stderr
    done = compare(tmp_path, first, second, "base=plain", "draft-7=k7")
    assert done.returncode == 0, done.stderr
    assert "k7" in done.stdout
    assert "draft-7" not in done.stdout


@pytest.mark.parametrize(
    ("renames", "words"),
    [
        (("nobody=k7",), "is not a variant of run"),
        (("base=k7", "draft-7=k7"), "would name two variants"),
        (("base=draft-7",), "would name two variants"),
        (("base",), "is not a pair of names"),
        (("=k7",), "is not a pair of names"),
    ],
)
def test_a_mapping_that_does_not_fit(
    renames: tuple[str, ...], words: str, server: Server, tmp_path: Path
) -> None:
    first, second = bench(server, tmp_path, "plain", "k7"), bench(server, tmp_path, "base", "draft-7")
    done = compare(tmp_path, first, second, *renames)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_renamed_run_is_whole(server: Server, tmp_path: Path) -> None:
    run = read_run(bench(server, tmp_path, "base", "draft-7"))
    other = renamed(run, {"base": "draft-7", "draft-7": "base"})
    assert {record.variant for record in other.records} == {"base", "draft-7"}
    assert other.manifest.variants["draft-7"].get("role") == "baseline"
    assert renamed(other, {"base": "draft-7", "draft-7": "base"}) == run


@pytest.mark.parametrize(
    "options", [("--rename", "a=b"), ("--requests", "x.csv", "RUN"), ("--requests", "no/x.csv")]
)
def test_options_that_need_another_number_of_runs(
    options: tuple[str, ...], server: Server, tmp_path: Path
) -> None:
    run = str(bench(server, tmp_path, "base", "draft-7"))
    words = [run if word == "RUN" else word for word in options]
    assert specdec("report", run, *words, cwd=tmp_path).returncode in (2, 4)
