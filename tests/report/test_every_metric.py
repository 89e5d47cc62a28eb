"""A metric is named in one place, and found in the report."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import quantiles

import pytest

from specdec import metrics
from specdec.metrics.definition import Metric
from specdec.report import Written, write
from specdec.report.parts import every_metric
from tests.report.sample import CASES, RUN, records, write_run

OUTPUT_PER_PROMPT = Metric(
    name="OutputPerPrompt",
    symbol="output per prompt",
    unit="None",
    formula="C_m / P",
    source="this test",
    better="neither",
    of=lambda record: (record.output_tokens or 0) / record.prompt_tokens if record.prompt_tokens else None,
)


def test_every_metric_that_can_be_told_is_listed(written: Written) -> None:
    section = (
        written.html.read_text(encoding="utf-8").split('<section id="metrics"')[1].split("</section>")[0]
    )
    rows = set(re.findall(r'<th scope="row">([^<]+)</th>', section))
    expected = {metric.symbol for metric in metrics.ALL}
    # The sample's servers report no accepted tokens of their own.
    assert rows == expected - {metrics.ACCEPTANCE_LENGTH.symbol}
    assert "<details><summary>" in section


def test_a_new_metric_is_in_the_report_once_it_is_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(every_metric, "ALL", (*metrics.ALL, OUTPUT_PER_PROMPT))
    made = write(write_run(tmp_path / RUN, records(cases=CASES[:2], tokens=30)))
    assert "| output per prompt | baseline | 24 |" in made.markdown.read_text(encoding="utf-8")


def test_percentiles_are_those_of_the_requests(tmp_path: Path) -> None:
    lines = records(cases=CASES[:2], tokens=30)
    lines = [
        replace(line, chunk_times=tuple(place * t for t in line.chunk_times))
        for place, line in enumerate(lines, 1)
    ]
    made = write(write_run(tmp_path / RUN, lines))
    numbers = {n["key"]: n for n in json.loads(made.numbers.read_text(encoding="utf-8"))["numbers"]}
    ttft = [line.chunk_times[0] for line in lines if line.variant == "baseline"]
    cuts = quantiles(ttft, n=100, method="inclusive")
    for percent in (50, 90, 95, 99):
        number = numbers[f"every/TimeToFirstToken/baseline/p{percent}"]
        assert number["value"] == pytest.approx(cuts[percent - 1])
        assert len(number["lines"]) == len(ttft)
