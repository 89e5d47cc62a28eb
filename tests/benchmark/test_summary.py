from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from specdec.benchmark.summary import summarize
from specdec.report.run_table import as_table
from specdec.runs.manifest import RunManifest
from specdec.runs.record import RequestRecord

FILLED = {
    "chunk_times": (0.2, 0.23, 0.26, 0.32),
    "chunk_tokens": (1, 5, 11, 13),
    "output_tokens": 13,
    "token_source": "continuous-usage",
}


@pytest.fixture
def summary(record: Callable[..., RequestRecord], tmp_path: Path) -> dict[str, object]:
    records = [
        record(warmup=True, test_case="warmup", **FILLED),
        record(variant="speculative", test_case="json", sent=0.0, **FILLED),
        record(
            variant="speculative",
            test_case="json",
            sent=10.0,
            outcome="cut",
            error="the connection closed",
            chunk_times=(0.2, 0.5),
        ),
        record(variant="baseline", test_case="json", sent=20.0, outcome="refused", error="no connection"),
        record(variant="speculative", test_case="code", sent=30.0, **FILLED),
    ]
    return summarize(written(records, tmp_path), tmp_path)


def written(records: list[RequestRecord], folder: Path) -> RunManifest:
    (folder / "records.jsonl").write_text("".join(item.to_json() + "\n" for item in records))
    return RunManifest(
        run="r",
        status="complete",
        experiment="e",
        configuration={},
        configuration_hash="",
        started_utc="",
        ended_utc="",
        environment={},
        variants={"baseline": {}, "speculative": {}},
        counts={},
        server_counters={"baseline": None, "speculative": {"drafts": 3, "source": "vllm:spec_decode_*"}},
        records_sha256="",
    )


def test_a_test_case_called_all_is_counted_once(record: Callable[..., RequestRecord], tmp_path: Path) -> None:
    records = [record(variant="baseline", test_case=case, **FILLED) for case in ("all", "json")]
    summary = summarize(written(records, tmp_path), tmp_path)
    entry = summary["variants"]["baseline"]
    assert {case: values["outcomes"] for case, values in entry["test_cases"].items()} == {
        "all": {"ok": 1},
        "json": {"ok": 1},
    }
    assert entry["all"]["outcomes"] == {"ok": 2}
    assert [line.split()[0] for line in as_table(summary).splitlines()[1:4]] == ["all", "json", "all"]


def test_medians_of_what_is_known(
    summary: dict[str, dict[str, dict[str, dict[str, dict[str, float]]]]],
) -> None:
    json_case = summary["variants"]["speculative"]["test_cases"]["json"]
    assert json_case["outcomes"] == {"ok": 1, "cut": 1}
    assert json_case["TimePerOutputToken"] == pytest.approx(0.01)
    # 13 tokens in 0.32 s, and half a second that was lost to the request that was cut.
    assert json_case["SystemThroughput"] == pytest.approx(13 / 0.82)
    assert summary["variants"]["baseline"]["test_cases"]["json"] == {"outcomes": {"refused": 1}}
    assert summary["variants"]["speculative"]["all"]["outcomes"] == {"ok": 2, "cut": 1}


def test_the_table_puts_a_dash_for_what_is_not_known(summary: dict[str, object]) -> None:
    lines = as_table(summary).splitlines()
    assert [line.split() for line in lines if line.startswith("json")] == [
        ["json", "baseline", "0", "1", "-", "-", "-", "-", "-", "-"],
        ["json", "speculative", "1", "1", "200.0", "10.00", "4.00", "40.0", "0.32", "15.9"],
    ]
    assert "baseline: token counts from none; server counters not reported" in lines
    assert "baseline: 1 x refused: no connection" in lines
    assert "speculative: token counts from continuous-usage (2); server counters vllm:spec_decode_*" in lines


def test_many_test_cases_are_folded_where_a_person_looks(
    record: Callable[..., RequestRecord], tmp_path: Path
) -> None:
    variants = ("baseline", "speculative")

    def table(cases: int, width: int | None) -> str:
        records = [
            record(variant=variant, test_case=f"case-{number}", **FILLED)
            for number in range(cases)
            for variant in variants
        ]
        return as_table(summarize(written(records, tmp_path), tmp_path), width=width)

    assert "case-19" in table(20, 100)
    folded = table(21, 100)
    assert "case-" not in folded
    assert "21 test cases; specdec report shows each" in folded
    assert folded.count("all test cases") == len(variants)
    assert "case-20" in table(21, None), "a line is a row for other programs"


@pytest.mark.parametrize(("joined", "told"), [((1, 2, 3, 4), True), ((1, 3, 5, 7), False)])
def test_tokens_per_step_are_told_where_the_report_tells_them(
    joined: tuple[int, ...], told: bool, record: Callable[..., RequestRecord], tmp_path: Path
) -> None:
    plain = {**FILLED, "chunk_tokens": joined, "output_tokens": joined[-1]}
    records = [record(variant="baseline", **plain), record(variant="speculative", **FILLED)]
    manifest = written(records, tmp_path)
    roles = {"baseline": {"role": "baseline"}, "speculative": {"role": "speculative"}}
    summary = summarize(replace(manifest, variants=roles), tmp_path)
    assert ("TokensPerStep" in summary["variants"]["speculative"]["all"]) is told
    alone = summarize(replace(manifest, variants={name: {} for name in roles}), tmp_path)
    assert "TokensPerStep" in alone["variants"]["speculative"]["all"]
