"""The metrics of the exact lane, one module each.

``ALL`` holds those that one request yields; they are what is published. ``OF_RUN`` holds those that need all
requests of a variant.
"""

from __future__ import annotations

from specdec.metrics.acceptance_length import ACCEPTANCE_LENGTH
from specdec.metrics.definition import Metric
from specdec.metrics.e2e import E2E
from specdec.metrics.goodput import GOODPUT
from specdec.metrics.itl import ITL
from specdec.metrics.of_run import RunMetric
from specdec.metrics.output_tokens import OUTPUT_TOKENS
from specdec.metrics.request_throughput import REQUEST_THROUGHPUT
from specdec.metrics.step_gap import STEP_GAP
from specdec.metrics.system_throughput import SYSTEM_THROUGHPUT
from specdec.metrics.tokens_per_step import TOKENS_PER_STEP
from specdec.metrics.tpot import TPOT
from specdec.metrics.ttft import TTFT

ALL: tuple[Metric, ...] = (
    TTFT,
    TPOT,
    ITL,
    STEP_GAP,
    TOKENS_PER_STEP,
    ACCEPTANCE_LENGTH,
    E2E,
    REQUEST_THROUGHPUT,
    OUTPUT_TOKENS,
)
"""Metrics of one request, in the order they are read."""

OF_RUN: tuple[RunMetric, ...] = (SYSTEM_THROUGHPUT, GOODPUT)
"""Metrics of all requests of one variant."""
