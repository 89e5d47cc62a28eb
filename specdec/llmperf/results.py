"""The LLMPerf lane: ray-project/llmperf as it is, with the published arguments, and what its own files say.

Read in the source of the pinned commit (token_benchmark_ray.py, openai_chat_completions_client.py, utils.py):

* ``inter_token_latency_s`` is the time of the last event with content divided by the number of all stream
  events, the role event included. It counts events, not tokens, and holds TTFT.
* ``number_output_tokens`` is the text counted with a Llama tokenizer, beginning-of-sequence included.
* Each thread starts another request while fewer than the asked ones are complete, so up to concurrency - 1
  are sent in vain.
* A request that fails divides by zero in its thread and ends it: no record, no error, less load from then on.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from specdec import atomic
from specdec.errors import SpecdecError

COMMIT = "f1d6bed47e4501b0e371082b41601b59ab55269f"
"""Commit of ray-project/llmperf, 2024-12-08: the newest there is, and what an unpinned checkout has given
since.
"""

TREE = "b3224bb56a3c3ce15a43fa610d240c2317bcb207"
"""Git tree of ``COMMIT``: what the files are checked against, however they came."""

FILE = "llmperf.json"
"""Parsed results in a run folder, beside LLMPerf's own files under ``llmperf/``."""

PUBLISHED_CASES: dict[str, str | None] = {
    "counting_numbers_from_1_": "counting numbers from 1 ",
    "__SHAKESPEARE__": None,
    "a": "a",
    "hello_world_": "hello world ",
    "the_cat_sat_on_the_mat._": "the cat sat on the mat. ",
    "Output_valid_JSON_with_fixed_keys": "Output valid JSON with fixed keys",
    "Write_a_simple_Python_function_skeleton": "Write a simple Python function skeleton",
    "List_numbers_from_one_to_twenty": "List numbers from one to twenty",
}
"""Published test cases: the TestCase dimension, and the line that LLMPerf's prompt file repeats; None leaves
its own sonnets.

From the published pod, aws-neuron/aws-neuron-eks-samples @cecff9e,
speculative_decoding_trn2_vllm/qwen-llmperf-pod.yaml.
"""

PROMPT_LINES = 500
"""How often the prompt file repeats its line, as published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Arguments of ``token_benchmark_ray.py``. The defaults are the published ones.

    Attributes:
        model: served model name.
        mean_input_tokens: prompt length asked for, Llama tokens.
        mean_output_tokens: ``max_tokens`` of every request.
        max_num_completed_requests: requests to complete.
        num_concurrent_requests: threads, each of which keeps one request in flight.
        timeout: seconds after which no further request is started.
        temperature: as sent.
        thinking: Qwen3 thinking mode as sent; None says nothing about it, as published.
        ignore_eos: ask for exactly ``mean_output_tokens``. Not in the published arguments.
    """

    model: str
    mean_input_tokens: int = 64
    mean_output_tokens: int = 600
    max_num_completed_requests: int = 8
    num_concurrent_requests: int = 4
    timeout: int = 1200
    temperature: float = 0.0
    thinking: bool | None = None
    ignore_eos: bool = False

    def command_line(self, results: Path) -> list[str]:
        """What follows ``python token_benchmark_ray.py``."""
        sampling: dict[str, Any] = {"temperature": self.temperature}
        if self.thinking is not None:
            sampling["chat_template_kwargs"] = {"enable_thinking": self.thinking}
        if self.ignore_eos:
            sampling["ignore_eos"] = True
        values = {
            "model": self.model,
            "mean-input-tokens": self.mean_input_tokens,
            "stddev-input-tokens": 0,
            "mean-output-tokens": self.mean_output_tokens,
            "stddev-output-tokens": 0,
            "max-num-completed-requests": self.max_num_completed_requests,
            "timeout": self.timeout,
            "num-concurrent-requests": self.num_concurrent_requests,
            "llm-api": "openai",
            "additional-sampling-params": json.dumps(sampling, allow_nan=False),
            "results-dir": results,
        }
        return [part for name, value in values.items() for part in (f"--{name}", str(value))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One record of ``*_individual_responses.json``, under LLMPerf's own names without their units.

    Attributes:
        ttft: seconds to the first event with content.
        inter_token_latency: seconds per stream event, TTFT included.
        end_to_end_latency: seconds until the stream was closed.
        request_output_throughput: Llama tokens per second.
        number_input_tokens: as asked for.
        number_output_tokens: Llama tokens, one more for beginning-of-sequence.
    """

    ttft: float
    inter_token_latency: float
    end_to_end_latency: float
    request_output_throughput: float
    number_input_tokens: int
    number_output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call of LLMPerf: one variant on one test case.

    Attributes:
        variant: variant name.
        test_case: TestCase dimension.
        arguments: as called.
        finished: Unix time at which LLMPerf wrote its files, seconds.
        distinct_prompts: different prompts among those asked for.
        requests: complete records.
        problems: what LLMPerf kept quiet about, a sentence each.
    """

    variant: str
    test_case: str
    arguments: Arguments
    finished: int
    distinct_prompts: int
    requests: tuple[Request, ...]
    problems: tuple[str, ...]

    @property
    def full_length(self) -> tuple[Request, ...]:
        """Requests that ran to ``mean_output_tokens``, as far as can be told.

        Certain with ``ignore_eos``. Without it, by the Llama count: Qwen3's vocabulary holds at least as much
        text per token in every kind of text tried (factor 1.00 to 1.51), so a Llama count below the limit
        means an early end. An early end that the factor hides is taken for full length.
        """
        if self.arguments.ignore_eos:
            return self.requests
        return tuple(
            request
            for request in self.requests
            if request.number_output_tokens >= self.arguments.mean_output_tokens
        )

    def time_per_output_token(self, request: Request) -> float:
        """``(end_to_end_latency - ttft) / (max_tokens - 1)``: exact for a full-length request whose prefill
        gives one token.
        """
        return (request.end_to_end_latency - request.ttft) / (self.arguments.mean_output_tokens - 1)

    def events(self, request: Request) -> float:
        """Stream events: ``end_to_end_latency / inter_token_latency``. The stream closes just after its last
        event.
        """
        return request.end_to_end_latency / request.inter_token_latency

    def tokens_per_step(self, request: Request, overhead: float) -> float | None:
        """``(max_tokens - 1) / (events - overhead - 1)``: tokens per event with content, the first one left
        out.

        Args:
            request: a full-length request.
            overhead: events without content, see ``overhead_events``.

        Returns:
            None if the stream had no second event with content.
        """
        steps = self.events(request) - overhead - 1
        return (self.arguments.mean_output_tokens - 1) / steps if steps >= 0.5 else None


def upper_median(values: list[float]) -> float | None:
    """The published pod's p50: the element at ``floor(n / 2)`` of the sorted list; None of nothing."""
    return sorted(values)[len(values) // 2] if values else None


def overhead_events(baseline: Case | None) -> float:
    """Events without content in a stream: the role event, and with some servers a closing one.

    Calibrated on a baseline, which sends one token per event: ``events - max_tokens``. Without one, or where
    that is not 1 or 2 (a baseline that merges tokens), 1: the role event that vLLM sends.
    """
    if baseline is None or not baseline.full_length:
        return 1.0
    measured = (
        statistics.median(baseline.events(request) for request in baseline.full_length)
        - baseline.arguments.mean_output_tokens
    )
    return float(round(measured)) if 1 <= round(measured) <= 2 else 1.0


def parse(
    results: Path,
    *,
    variant: str,
    test_case: str,
    arguments: Arguments,
    log: str = "",
    sent: int | None = None,
    distinct_prompts: int,
) -> Case:
    """Reads what one call of LLMPerf left behind.

    Args:
        results: its ``--results-dir``.
        variant: variant name.
        test_case: TestCase dimension.
        arguments: as called.
        log: what it printed.
        sent: requests the server counted meanwhile, or None where it does not count.
        distinct_prompts: different prompts among those asked for.

    Raises:
        SpecdecError: a file is missing, there twice, or not in LLMPerf's format.
    """
    raw = _json(_only(results, "*_individual_responses.json"))
    summary = _json(_only(results, "*_summary.json"))
    if not isinstance(raw, list) or not isinstance(summary, dict):
        raise SpecdecError(
            f"{results} does not hold LLMPerf's results: a list of responses and a summary were expected"
        )
    entries = [cast("dict[str, Any]", entry) for entry in cast("list[Any]", raw) if isinstance(entry, dict)]
    problems: list[str] = []
    if len(entries) < len(cast("list[Any]", raw)):
        problems.append(
            "The list of responses holds names instead of records: a request ended after LLMPerf stopped"
            " waiting for it"
        )
    requests: list[Request] = []
    failed = 0
    for number, entry in enumerate(entries):
        if entry.get("error_code") is not None:
            failed += 1
            continue
        requests.append(_request(entry, f"{results}, response {number}"))
    if failed:
        problems.append(f"{failed} requests are recorded as failed")
    empty = [request for request in requests if request.ttft <= 0 or request.inter_token_latency <= 0]
    if empty:
        problems.append(
            f"{len(empty)} requests gave no content that LLMPerf sees, with 0 in every time; left out. "
            "With a reasoning parser, text arrives where LLMPerf does not look"
        )
    kept = tuple(request for request in requests if request not in empty)
    problems.extend(_quiet_faults(arguments, len(entries), log, sent, distinct_prompts))
    finished = cast("dict[str, Any]", summary).get("timestamp")
    if not isinstance(finished, int):
        raise SpecdecError(f"{results}: the summary has no timestamp")
    case = Case(
        variant=variant,
        test_case=test_case,
        arguments=arguments,
        finished=finished,
        distinct_prompts=distinct_prompts,
        requests=kept,
        problems=tuple(problems),
    )
    short = len(kept) - len(case.full_length)
    if short:
        early = (
            f"{short} of {len(kept)} requests ended before {arguments.mean_output_tokens} tokens; left out of"
            " the derived metrics"
        )
        case = dataclasses.replace(case, problems=(*case.problems, early))
    return case


def _quiet_faults(
    arguments: Arguments, records: int, log: str, sent: int | None, distinct_prompts: int
) -> list[str]:
    asked = arguments.max_num_completed_requests
    faults: list[str] = []
    timed_out = "Test timed out before all requests could be completed" in log
    if records < asked:
        reason = (
            f"the limit of {arguments.timeout} s passed"
            if timed_out
            else "threads ended on a failed request, which LLMPerf does not count"
        )
        faults.append(f"{records} of {asked} requests are recorded: {reason}")
    crashes = len(re.findall(r"^ZeroDivisionError", log, re.MULTILINE))
    if crashes:
        threads = (
            f"{crashes} of {arguments.num_concurrent_requests} threads ended on a failed request, so the load"
            " was lower from then on"
        )
        words = re.search(r"Warning Or Error: (.*)", log)
        faults.append(f"{threads}. The first: {words[1].strip()}" if words else threads)
    if sent is not None and sent > records:
        faults.append(
            f"{sent} requests were sent for {records} records: the others were load without a record"
        )
    elif sent is None and arguments.num_concurrent_requests > 1:
        faults.append(
            f"Up to {arguments.num_concurrent_requests - 1} more requests were sent than recorded; the server"
            " did not count them"
        )
    if distinct_prompts < asked:
        faults.append(
            f"{asked} requests sent {distinct_prompts} different prompts: at temperature 0, repeats of one"
            " measurement"
        )
    return faults


def save(folder: Path, cases: list[Case]) -> None:
    """Writes the lane's results into a run folder."""
    content = [dataclasses.asdict(case) for case in cases]
    atomic.write(
        folder / FILE, json.dumps({"commit": COMMIT, "cases": content}, indent=1, allow_nan=False) + "\n"
    )


def load(folder: Path) -> list[Case]:
    """The lane's results of a run folder; empty if the lane was not run.

    Raises:
        SpecdecError: the file cannot be read.
    """
    path = folder / FILE
    if not path.exists():
        return []
    try:
        return [_case(raw) for raw in json.loads(path.read_text(encoding="utf-8"))["cases"]]
    except (ValueError, KeyError, TypeError) as error:
        raise SpecdecError(f"{path} cannot be read: {error!r}") from None


def _case(raw: dict[str, Any]) -> Case:
    return Case(
        variant=raw["variant"],
        test_case=raw["test_case"],
        arguments=Arguments(**raw["arguments"]),
        finished=raw["finished"],
        distinct_prompts=raw["distinct_prompts"],
        requests=tuple(Request(**request) for request in raw["requests"]),
        problems=tuple(raw["problems"]),
    )


def _only(results: Path, pattern: str) -> Path:
    files = sorted(results.glob(pattern))
    if len(files) != 1:
        raise SpecdecError(
            f"{results} has {len(files)} files {pattern}, 1 was expected: LLMPerf ended before it wrote its"
            " results"
        )
    return files[0]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SpecdecError(f"{path} is not JSON: {error}") from None


def _request(entry: dict[str, Any], where: str) -> Request:
    def number(name: str) -> float:
        value = entry.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise SpecdecError(f"{where}: {name} is {value!r}, a number was expected")
        return value

    return Request(
        ttft=number("ttft_s"),
        inter_token_latency=number("inter_token_latency_s"),
        end_to_end_latency=number("end_to_end_latency_s"),
        request_output_throughput=number("request_output_throughput_token_per_s"),
        number_input_tokens=int(number("number_input_tokens")),
        number_output_tokens=int(number("number_output_tokens")),
    )
