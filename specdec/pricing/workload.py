"""How much a benchmark sends, which determines the price of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What one run of the benchmark sends.

    Attributes:
        prompts: prompts of the set.
        test_cases: test cases of the set.
        llmperf_cases: test cases of the LLMPerf lane, 0 where it does not run.
        too_few: a sentence about test cases with too few prompts, or None where all have enough.
    """

    prompts: int
    test_cases: int
    llmperf_cases: int
    too_few: str | None = None
