"""LLMPerf's files as the pinned commit writes them, and what they hide."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from specdec.errors import SpecdecError
from specdec.llmperf import lane, results
from specdec.llmperf.lane import Installation
from specdec.llmperf.results import Arguments, Case
from specdec.publish import llmperf_datums, series

ARGUMENTS = Arguments(model="Qwen/Qwen3-32B", mean_output_tokens=121, ignore_eos=True)


def response(
    *,
    ttft: float = 0.2,
    step: float = 0.02,
    steps: int = 120,
    overhead: int = 1,
    tokens: int = 122,
    **other: Any,
) -> dict[str, Any]:
    """A record for a stream of one first token and ``steps`` further events."""
    e2e = ttft + step * steps
    return {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": e2e / (steps + 1 + overhead),
        "ttft_s": ttft,
        "end_to_end_latency_s": e2e,
        "request_output_throughput_token_per_s": tokens / e2e,
        "number_total_tokens": tokens + 64,
        "number_output_tokens": tokens,
        "number_input_tokens": 64,
        **other,
    }


def write(folder: Path, responses: list[Any], *, name: str = "Qwen-Qwen3-32B_64_121") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}_individual_responses.json").write_text(json.dumps(responses), encoding="utf-8")
    summary = {
        "version": "2023-08-31",
        "name": f"{name}_summary",
        "timestamp": 1796000000,
        "results_num_requests_started": len(responses),
    }
    (folder / f"{name}_summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return folder


def parse(
    folder: Path,
    *,
    variant: str = "baseline",
    log: str = "",
    sent: int | None = 8,
    distinct: int = 8,
    arguments: Arguments = ARGUMENTS,
) -> Case:
    return results.parse(
        folder,
        variant=variant,
        test_case="a",
        arguments=arguments,
        log=log,
        sent=sent,
        distinct_prompts=distinct,
    )


def test_the_published_arguments() -> None:
    line = Arguments(model="Qwen/Qwen3-32B").command_line(Path("r"))
    pairs = dict(zip(line[::2], line[1::2], strict=True))
    assert pairs == {
        "--model": "Qwen/Qwen3-32B",
        "--mean-input-tokens": "64",
        "--stddev-input-tokens": "0",
        "--mean-output-tokens": "600",
        "--stddev-output-tokens": "0",
        "--max-num-completed-requests": "8",
        "--timeout": "1200",
        "--num-concurrent-requests": "4",
        "--llm-api": "openai",
        "--additional-sampling-params": '{"temperature": 0.0}',
        "--results-dir": "r",
    }


def test_the_dimension_of_a_published_case_is_its_prompt_with_underscores() -> None:
    assert len(results.PUBLISHED_CASES) == 8
    for dimension, line in results.PUBLISHED_CASES.items():
        assert dimension == ("__SHAKESPEARE__" if line is None else line.replace(" ", "_"))


def test_a_faster_server_has_the_worse_published_latency_and_the_better_derived_one(tmp_path: Path) -> None:
    # Baseline: 120 steps of 20 ms. Speculative: 24 steps of 36 ms, 5 tokens each: 864 ms for 120 tokens, 7.2
    # ms a token.
    base = parse(write(tmp_path / "b", [response()] * 8))
    fast = parse(write(tmp_path / "s", [response(step=0.036, steps=24)] * 8), variant="speculative")
    slow, quick = llmperf_datums.published(base, base), llmperf_datums.published(fast, base)
    assert quick[series.LLMPERF_INTER_TOKEN_LATENCY] > slow[series.LLMPERF_INTER_TOKEN_LATENCY]
    assert slow[series.LLMPERF_TPOT] == pytest.approx(0.020)
    assert quick[series.LLMPERF_TPOT] == pytest.approx(0.0072)
    assert slow[series.LLMPERF_TOKENS_PER_STEP] == pytest.approx(1.0)
    assert quick[series.LLMPERF_TOKENS_PER_STEP] == pytest.approx(5.0)
    assert base.problems == fast.problems == ()


def test_a_closing_event_is_calibrated_away_on_the_baseline(tmp_path: Path) -> None:
    base = parse(write(tmp_path / "b", [response(overhead=2)] * 8))
    fast = parse(write(tmp_path / "s", [response(step=0.036, steps=24, overhead=2)] * 8))
    assert llmperf_datums.published(fast, base)[series.LLMPERF_TOKENS_PER_STEP] == pytest.approx(5.0)
    assert llmperf_datums.published(fast, None)[series.LLMPERF_TOKENS_PER_STEP] == pytest.approx(120 / 25)


def test_the_median_is_the_upper_one() -> None:
    assert results.upper_median([8.0, 1, 2, 3, 4, 5, 6, 7]) == 5
    assert results.upper_median([]) is None


def test_the_name_format_of_the_pinned_commit_is_found(tmp_path: Path) -> None:
    assert len(parse(write(tmp_path, [response()] * 8)).requests) == 8


@pytest.mark.parametrize(
    ("responses", "options", "words"),
    [
        ([response()] * 5, {}, "5 of 8 requests are recorded: threads ended on a failed request"),
        (
            [response()] * 5,
            {"log": "Test timed out before all requests could be completed."},
            "the limit of 1200 s passed",
        ),
        ([response()] * 8, {"sent": 11}, "11 requests were sent for 8 records"),
        ([response()] * 8, {"sent": None}, "Up to 3 more requests were sent"),
        ([response()] * 8, {"distinct": 1}, "8 requests sent 1 different prompts"),
        (
            [*[response()] * 7, response(error_code=500, error_msg="x")],
            {},
            "1 requests are recorded as failed",
        ),
        (
            [*[response()] * 7, response(ttft_s=0, inter_token_latency_s=0)],
            {},
            "gave no content that LLMPerf sees",
        ),
        ([*[response()] * 8, "error_code"], {}, "holds names instead of records"),
        (
            [response()] * 6,
            {
                "log": (
                    "(pid=1) Warning Or Error: 500 Server Error\n500\nTraceback\nZeroDivisionError: division"
                    " by zero\n"
                )
            },
            (
                "1 of 4 threads ended on a failed request, so the load was lower from then on. The first: 500"
                " Server Error"
            ),
        ),
    ],
)
def test_what_llmperf_keeps_quiet_about_is_said(
    tmp_path: Path, responses: list[Any], options: dict[str, Any], words: str
) -> None:
    case = parse(write(tmp_path, responses), **options)
    assert any(words in problem for problem in case.problems), case.problems
    assert all(one.ttft > 0 for one in case.requests)


def test_an_early_end_is_left_out_of_what_is_derived(tmp_path: Path) -> None:
    published = Arguments(model="m", mean_output_tokens=121)
    case = parse(write(tmp_path, [*[response()] * 7, response(tokens=90, steps=60)]), arguments=published)
    assert (len(case.requests), len(case.full_length)) == (8, 7)
    assert any("ended before 121 tokens" in problem for problem in case.problems)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "a list of responses"),
        ("[", "is not JSON"),
        ('[{"error_code": null}]', "ttft_s is None"),
        ('[{"error_code": null, "ttft_s": NaN}]', "ttft_s is nan"),
    ],
)
def test_a_file_that_is_not_llmperfs_is_named(tmp_path: Path, content: str, words: str) -> None:
    write(tmp_path, [])
    next(tmp_path.glob("*_individual_responses.json")).write_text(content, encoding="utf-8")
    with pytest.raises(SpecdecError, match=words):
        parse(tmp_path)


def test_results_are_stored_whole(tmp_path: Path) -> None:
    case = parse(write(tmp_path / "r", [response()] * 8))
    results.save(tmp_path, [case])
    assert results.load(tmp_path) == [case]
    assert results.load(tmp_path / "r") == []


STAND_IN = """
import json, os, sys, pathlib
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert pathlib.Path("hf-internal-testing/llama-tokenizer/tokenizer.json").exists()
assert os.environ["HF_HUB_OFFLINE"] == "1"
lines = pathlib.Path("src/llmperf/sonnet.txt").read_text().splitlines()
print(os.environ["OPENAI_API_BASE"], len(lines), lines[0])
if "broken" in os.environ["OPENAI_API_BASE"]:
    raise KeyError("error_code")
results = pathlib.Path(arguments["--results-dir"])
(results / "m_64_121_individual_responses.json").write_text(json.dumps([RESPONSE] * 8))
(results / "m_64_121_summary.json").write_text(json.dumps({"timestamp": 1796000000}))
"""


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """A stand-in that takes LLMPerf's arguments and writes its files."""
    source, tokenizer = tmp_path / "source", tmp_path / "tokenizer"
    (source / "src" / "llmperf").mkdir(parents=True)
    (source / "src" / "llmperf" / "sonnet.txt").write_text("Shall I compare thee\n", encoding="utf-8")
    (source / "token_benchmark_ray.py").write_text(
        STAND_IN.replace("RESPONSE", repr(response())), encoding="utf-8"
    )
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text("{}", encoding="utf-8")
    return Installation(Path(sys.executable), source, tokenizer)


def test_the_lane_runs_each_case_on_each_variant_in_turn_and_spares_the_source(
    installation: Installation, tmp_path: Path
) -> None:
    order: list[str] = []
    cases = lane.run_lane(
        installation,
        ARGUMENTS,
        {"baseline": "http://127.0.0.1:9/v1", "speculative": "http://127.0.0.1:9/broken"},
        tmp_path / "run",
        cases={"hello_world_": "hello world ", "__SHAKESPEARE__": None},
        on_event=lambda message, done, total: order.append(f"{message} {done}/{total}"),
    )
    assert order == [
        "LLMPerf: baseline, hello_world_ 0/4",
        "LLMPerf: speculative, hello_world_ 1/4",
        "LLMPerf: speculative, __SHAKESPEARE__ 2/4",
        "LLMPerf: baseline, __SHAKESPEARE__ 3/4",
        "LLMPerf: done 4/4",
    ]
    assert [len(case.requests) for case in cases] == [8, 0, 0, 8]
    assert "ended with status 1: KeyError: 'error_code'" in cases[1].problems[0]
    assert results.load(tmp_path / "run") == cases
    logs = [
        (tmp_path / "run" / "llmperf" / "baseline" / name / "log.txt").read_text()
        for name in ("hello_world_", "__SHAKESPEARE__")
    ]
    assert logs == [
        "http://127.0.0.1:9/v1 500 hello world \n",
        "http://127.0.0.1:9/v1 1 Shall I compare thee\n",
    ]
    assert (installation.source / "src" / "llmperf" / "sonnet.txt").read_text(
        encoding="utf-8"
    ) == "Shall I compare thee\n"
