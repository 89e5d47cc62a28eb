"""What a metric is. Each metric of the product is one small module here; dashboards and publisher read the
same list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from specdec.runs.record import RequestRecord

NAMESPACE = "SpecDec/Exact"
"""CloudWatch namespace of the exact lane."""

DIMENSIONS = ("Experiment", "Variant", "TestCase")
"""CloudWatch dimensions of every metric of the exact lane, in this order."""

Unit = Literal["Seconds", "Count", "Count/Second", "Percent", "None"]
"""CloudWatch unit names used here."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that one request yields.

    Attributes:
        name: CloudWatch metric name, also the word in reports' data files.
        symbol: what a person reads: TTFT, TPOT, ...
        unit: CloudWatch unit of the value.
        formula: the formula, in the symbols of ``specdec.runs.record``.
        source: where the formula is defined or argued.
        better: whether a smaller or a larger value is better, or neither.
        of: computes the value from one record; None where the record cannot tell (never 0 for "unknown").
    """

    name: str
    symbol: str
    unit: Unit
    formula: str
    source: str
    better: Literal["smaller", "larger", "neither"]
    of: Callable[[RequestRecord], float | None]
