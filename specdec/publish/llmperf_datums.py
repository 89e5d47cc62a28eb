"""From LLMPerf's results to CloudWatch datums under the published names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from specdec.llmperf import results
from specdec.llmperf.results import Case
from specdec.publish import series
from specdec.publish.datums import Datum, distributions
from specdec.publish.series import Series


def of_cases(cases: Sequence[Case], *, baseline: str | None) -> list[Datum]:
    """One value per variant, test case and series: the upper median over the requests, at the minute LLMPerf
    finished.

    Args:
        cases: results of the lane.
        baseline: variant on which stream events without content are calibrated.
    """
    points: list[tuple[Series, tuple[str, ...], datetime, float]] = []
    for case in cases:
        at = datetime.fromtimestamp(case.finished, UTC).replace(second=0, microsecond=0)
        for time_series, value in published(case, _twin(case, cases, baseline)).items():
            points.append((time_series, (case.variant, case.test_case), at, value))
    return list(distributions(points))


def published(case: Case, baseline: Case | None) -> dict[Series, float]:
    """The values of one case, the published six and the two derived; a series without a value is left out."""
    overhead = results.overhead_events(baseline)
    full = case.full_length
    values = {
        series.LLMPERF_TTFT: [request.ttft for request in case.requests],
        series.LLMPERF_INTER_TOKEN_LATENCY: [request.inter_token_latency for request in case.requests],
        series.LLMPERF_END_TO_END_LATENCY: [request.end_to_end_latency for request in case.requests],
        series.LLMPERF_THROUGHPUT: [request.request_output_throughput for request in case.requests],
        series.LLMPERF_INPUT_TOKENS: [float(request.number_input_tokens) for request in case.requests],
        series.LLMPERF_OUTPUT_TOKENS: [float(request.number_output_tokens) for request in case.requests],
        series.LLMPERF_TPOT: [case.time_per_output_token(request) for request in full],
        series.LLMPERF_TOKENS_PER_STEP: [
            steps for request in full if (steps := case.tokens_per_step(request, overhead)) is not None
        ],
    }
    medians = {time_series: results.upper_median(numbers) for time_series, numbers in values.items()}
    return {time_series: value for time_series, value in medians.items() if value is not None}


def _twin(case: Case, cases: Sequence[Case], baseline: str | None) -> Case | None:
    return next(
        (other for other in cases if other.variant == baseline and other.test_case == case.test_case), None
    )
