"""The service level objective: what a user must be kept within."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, cast

from specdec.metrics.e2e import e2e
from specdec.metrics.tpot import tpot
from specdec.metrics.ttft import ttft
from specdec.runs.record import RequestRecord

SHARE = 0.95
"""Share of requests that must keep the limits, unless an objective names another: the usual p95."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Limits, seconds; None does not limit. There is no default: what users bear is theirs to say.

    Attributes:
        ttft: most time to first token.
        tpot: most time per output token.
        e2e: most time to the last token.
        share: of the requests, failed ones among them, that must keep every limit.
    """

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None
    share: float = SHARE

    def strain(self, record: RequestRecord) -> float:
        """The largest of a request's times over its limit: 1 or less keeps the objective.

        Infinite for a request that failed, or of which a limited time is not known.
        """
        limits = ((self.ttft, ttft), (self.tpot, tpot), (self.e2e, e2e))
        times = [(limit, of(record)) for limit, of in limits if limit is not None]
        if record.outcome != "ok" or any(value is None for _, value in times):
            return inf
        return max((value / limit for limit, value in times if value is not None), default=0.0)

    def kept(self, record: RequestRecord) -> bool:
        """Whether a request keeps every limit. One that failed, or whose time is not known, does not."""
        return self.strain(record) <= 1

    def words(self) -> str:
        """As a person reads it: ``95% with TTFT <= 800 ms and TPOT <= 30 ms``."""
        limits = (("TTFT", self.ttft), ("TPOT", self.tpot), ("E2E", self.e2e))
        kept = " and ".join(f"{name} <= {1000 * limit:g} ms" for name, limit in limits if limit is not None)
        return f"{100 * self.share:g}% with {kept}"

    def plain(self) -> dict[str, float | None]:
        """As the experiment's ``[objective]`` has it, milliseconds."""

        def ms(seconds: float | None) -> float | None:
            return None if seconds is None else round(1000 * seconds, 6)

        return {
            "ttft_ms": ms(self.ttft),
            "tpot_ms": ms(self.tpot),
            "e2e_ms": ms(self.e2e),
            "share": self.share,
        }


def objective_of(configuration: Mapping[str, Any]) -> Objective | None:
    """The objective that a run's configuration names; None without a limit."""
    section = configuration.get("objective")
    if not isinstance(section, Mapping):
        return None
    fields = cast("Mapping[str, Any]", section)

    def seconds(name: str) -> float | None:
        value = fields.get(name)
        return None if value is None else float(value) / 1000

    objective = Objective(
        ttft=seconds("ttft_ms"),
        tpot=seconds("tpot_ms"),
        e2e=seconds("e2e_ms"),
        share=float(fields.get("share") or SHARE),
    )
    return None if objective == Objective(share=objective.share) else objective
