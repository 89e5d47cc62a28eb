"""The CloudWatch series that the product publishes, by name, unit and dimensions. Publisher and dashboards
read the same list.

The series of the exact lane are the metrics of ``specdec.metrics``; this module adds what a run and the
LLMPerf lane publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from specdec.metrics import ALL, OF_RUN
from specdec.metrics.definition import DIMENSIONS, NAMESPACE, Metric, Unit
from specdec.metrics.goodput import GOODPUT
from specdec.metrics.tpot import TPOT
from specdec.metrics.ttft import TTFT

RUN_NAMESPACE = "SpecDec/Run"
"""What a run as a whole yields: whether it failed, how its requests ended, parity."""

LLMPERF_NAMESPACE = "Qwen/LLMPerf"
"""The namespace under which LLMPerf's figures were published."""

NAMESPACES = (NAMESPACE, RUN_NAMESPACE, LLMPERF_NAMESPACE)
"""All that the benchmark needs permission to write to."""


@dataclass(frozen=True, slots=True)
class Series:
    """One CloudWatch metric.

    Attributes:
        namespace: CloudWatch namespace.
        name: metric name.
        symbol: what a person reads.
        unit: CloudWatch unit.
        dimensions: names of its dimensions, in the order in which values are given.
        meaning: what a value is, with its formula where there is one.
    """

    namespace: str
    name: str
    symbol: str
    unit: Unit
    dimensions: tuple[str, ...]
    meaning: str


def exact(metrics: Iterable[Metric]) -> tuple[Series, ...]:
    """The series of the exact lane."""
    return tuple(
        Series(NAMESPACE, metric.name, metric.symbol, metric.unit, DIMENSIONS, metric.formula)
        for metric in metrics
    )


FAILED_RUNS = Series(
    RUN_NAMESPACE,
    "FailedRuns",
    "failed runs",
    "Count",
    ("Experiment",),
    "1 for a run that did not complete, 0 for one that did",
)
REQUESTS = Series(
    RUN_NAMESPACE,
    "Requests",
    "requests",
    "Count",
    ("Experiment", "Variant", "Outcome"),
    "requests of a run that ended with this outcome, warm-up left out",
)
PARITY = Series(
    RUN_NAMESPACE,
    "Parity",
    "parity",
    "Percent",
    DIMENSIONS,
    "share of prompts, sent at temperature 0, whose text equals the baseline's",
)
SERVICE = tuple(
    Series(RUN_NAMESPACE, metric.name, metric.symbol, metric.unit, ("Experiment", "Variant"), metric.formula)
    for metric in OF_RUN
)
"""The metrics of ``specdec.metrics.OF_RUN``: what one variant's service gave under the load of the run."""

LOAD = "Load"
"""Further dimension of what a run of several loads publishes: requests in flight, or per second."""

BY_LOAD = tuple(
    Series(NAMESPACE, metric.name, metric.symbol, metric.unit, (*DIMENSIONS, LOAD), metric.formula)
    for metric in (TPOT, TTFT)
)
"""What one request yields, at each load of a run with several. Without this dimension, such a run publishes
its lowest load alone, so that a series never mixes loads."""

SERVICE_BY_LOAD = tuple(
    Series(
        RUN_NAMESPACE,
        metric.name,
        metric.symbol,
        metric.unit,
        ("Experiment", "Variant", LOAD),
        metric.formula,
    )
    for metric in OF_RUN
)

RUN = (FAILED_RUNS, REQUESTS, PARITY, *SERVICE)

_LLMPERF_DIMENSIONS = ("Variant", "TestCase")

LLMPERF_TTFT = Series(
    LLMPERF_NAMESPACE,
    "TTFT",
    "TTFT",
    "Seconds",
    _LLMPERF_DIMENSIONS,
    "ttft_s: from sending to the first event with content",
)
LLMPERF_INTER_TOKEN_LATENCY = Series(
    LLMPERF_NAMESPACE,
    "InterTokenLatency",
    "time per stream event, TTFT included",
    "Seconds",
    _LLMPERF_DIMENSIONS,
    "inter_token_latency_s: time of the last content event divided by the number of stream events, which"
    " under speculation are not tokens; never the verdict",
)
LLMPERF_END_TO_END_LATENCY = Series(
    LLMPERF_NAMESPACE,
    "EndToEndLatency",
    "E2E",
    "Seconds",
    _LLMPERF_DIMENSIONS,
    "end_to_end_latency_s: until the stream is closed",
)
LLMPERF_THROUGHPUT = Series(
    LLMPERF_NAMESPACE,
    "RequestOutputThroughput",
    "request throughput, Llama tokens",
    "Count/Second",
    _LLMPERF_DIMENSIONS,
    "request_output_throughput_token_per_s: tokens of a Llama tokenizer divided by E2E",
)
LLMPERF_INPUT_TOKENS = Series(
    LLMPERF_NAMESPACE,
    "InputTokens",
    "requested prompt length",
    "Count",
    _LLMPERF_DIMENSIONS,
    "number_input_tokens: as asked for",
)
LLMPERF_OUTPUT_TOKENS = Series(
    LLMPERF_NAMESPACE,
    "OutputTokens",
    "output, Llama tokens",
    "Count",
    _LLMPERF_DIMENSIONS,
    "number_output_tokens: the text counted with a Llama tokenizer, beginning-of-sequence included; a length,"
    " not a speed",
)
LLMPERF_TPOT = Series(
    LLMPERF_NAMESPACE,
    "TimePerOutputToken",
    "TPOT, derived",
    "Seconds",
    _LLMPERF_DIMENSIONS,
    "(end_to_end_latency_s - ttft_s) / (max_tokens - 1), for requests that ran to max_tokens",
)
LLMPERF_TOKENS_PER_STEP = Series(
    LLMPERF_NAMESPACE,
    "TokensPerStep",
    "tokens per step, derived",
    "Count",
    _LLMPERF_DIMENSIONS,
    "(max_tokens - 1) / (events - events without content - 1), where events = end_to_end_latency_s /"
    " inter_token_latency_s",
)
LLMPERF = (
    LLMPERF_TTFT,
    LLMPERF_INTER_TOKEN_LATENCY,
    LLMPERF_END_TO_END_LATENCY,
    LLMPERF_THROUGHPUT,
    LLMPERF_INPUT_TOKENS,
    LLMPERF_OUTPUT_TOKENS,
    LLMPERF_TPOT,
    LLMPERF_TOKENS_PER_STEP,
)


def emitted(
    *, variants: int, test_cases: int, llmperf_cases: int, objective: bool = False, loads: int = 0
) -> int:
    """CloudWatch metrics, as they are billed, that runs without a failed request publish: each series once
    for each combination of its dimensions' values.

    Args:
        variants: variants of the experiment.
        test_cases: test cases of its prompt set.
        llmperf_cases: test cases of the LLMPerf lane, 0 where it does not run.
        objective: whether the experiment names one: without it there is no goodput.
        loads: of a run with several, else 0.
    """
    sizes = {"Experiment": 1, "Variant": variants, "TestCase": test_cases, "Outcome": 1, LOAD: loads}
    service = [series for series in (*SERVICE, *SERVICE_BY_LOAD) if objective or series.name != GOODPUT.name]
    return (
        _combinations((*exact(ALL), FAILED_RUNS, REQUESTS, *service, *BY_LOAD), sizes)
        # The baseline is what the others' text is compared with.
        + _combinations((PARITY,), {**sizes, "Variant": variants - 1})
        + _combinations(LLMPERF, {**sizes, "TestCase": llmperf_cases})
    )


def _combinations(published: Iterable[Series], sizes: Mapping[str, int]) -> int:
    return sum(prod(sizes[name] for name in series.dimensions) for series in published)
