"""What a million output tokens cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

from specdec.analysis.verdict import TokenCost
from specdec.catalog.prices import NodePrice
from specdec.metrics.e2e import e2e
from specdec.metrics.of_run import loaded_seconds
from specdec.runs.manifest import SERVER_PRICE
from specdec.runs.record import RequestRecord

if TYPE_CHECKING:
    from specdec.analysis.advice import WindowAdvice
    from specdec.analysis.verdict import Verdict
    from specdec.runs.manifest import RunManifest

SECONDS_PER_HOUR = 3600


def usd_per_million_tokens(usd_per_hour: float, tokens_per_second: float) -> float:
    """``usd_per_hour * 1e6 / (3600 * tokens_per_second)``."""
    return usd_per_hour * 1e6 / (SECONDS_PER_HOUR * tokens_per_second)


def in_flight(records: Sequence[RequestRecord]) -> float | None:
    """Mean requests in flight while a variant was loaded: its requests' times over the time in which any was
    in flight.
    """
    seconds = loaded_seconds(records)
    return sum(e2e(record) or 0.0 for record in records) / seconds if seconds > 0 else None


def spent(record: RequestRecord, *, stall: float, total: float) -> float:
    """Seconds for which a request occupied a slot, whether it succeeded or not.

    Args:
        record: of the request.
        stall: deadline without a byte, which a timed-out request waited for.
        total: deadline of a whole request.
    """
    heard = record.chunk_times[-1] if record.chunk_times else 0.0
    if record.outcome == "timeout":
        return min(total, heard + stall)
    return max(heard, record.closed or 0.0)


def own_price(manifest: RunManifest, variant: str) -> NodePrice | None:
    """The price that the user gave for a variant's server (``--usd-per-hour``), or None."""
    price = manifest.environment.get(SERVER_PRICE)
    if isinstance(price, dict):
        price = cast("dict[str, Any]", price).get(variant)
    if not isinstance(price, (int, float)) or not 0 < price < inf:
        return None
    return NodePrice(
        instance_type="server",
        usd_per_hour=float(price),
        purchase="experiment",
        region=None,
        source="given with --usd-per-hour",
        date=None,
    )


def by_price(prices: Iterable[tuple[str, NodePrice]]) -> list[tuple[NodePrice, list[str]]]:
    """Each price once, with the variants that it is of."""
    groups: dict[NodePrice, list[str]] = {}
    for variant, price in prices:
        groups.setdefault(price, []).append(variant)
    return list(groups.items())


def usd_at(verdict: Verdict, advice: WindowAdvice, window: int | None) -> float | None:
    """Predicted US dollars per million output tokens at a window, for the share of the node that is used.

    The cost that was measured at the first measured window, with the time per token that the curve gives
    instead of that window's: TTFT and requests in flight stay what they were. None without a price.

    Args:
        verdict: of the run.
        advice: for one test case or the mix, in which every test case weighs the same.
        window: on the advice's curve; None for no speculation, whose cost was measured.
    """
    variant = verdict.baselines[0] if window is None else advice.variants[0]
    costs = [
        m.cost
        for m in verdict.measurements
        if m.cost is not None and m.variant == variant and advice.test_case in (None, m.test_case)
    ]
    if not costs:
        return None
    usd = fmean(cost.share_usd for cost in costs)
    if window is None:
        return usd
    tpot = {point.window: point.tpot for point in advice.curve}
    usd_per_second = costs[0].share_usd * costs[0].tokens_per_second / costs[0].in_flight
    return usd + usd_per_second * (tpot[window] - tpot[advice.measured_windows[0]])


def token_cost(
    records: Sequence[RequestRecord],
    *,
    lost_seconds: float = 0.0,
    mean_in_flight: float | None,
    price: NodePrice,
    node_share: float,
) -> TokenCost | None:
    """Cost of one variant on one test case.

    The throughput is what the service gives if all its traffic is like this test case: tokens over time of
    one stream, times the streams that were in flight in the whole run. Input tokens have no price of their
    own: the time to read them is part of E2E.

    Args:
        records: measured requests of the variant on the test case.
        lost_seconds: that its failed requests took, see ``spent``: they are paid for and bring nothing.
        mean_in_flight: see ``in_flight``, over all test cases.
        price: of the whole node.
        node_share: the variant's part of the node's devices, 0 to 1.

    Returns:
        None when no request has both a count and a time.
    """
    counted = [record for record in records if record.output_tokens and record.chunk_times]
    seconds = sum(record.chunk_times[-1] for record in counted) + lost_seconds
    if mean_in_flight is None or seconds <= 0:
        return None
    rate = mean_in_flight * sum(record.output_tokens or 0 for record in counted) / seconds
    node_usd = usd_per_million_tokens(price.usd_per_hour, rate)
    return TokenCost(
        tokens_per_second=rate, in_flight=mean_in_flight, share_usd=node_usd * node_share, node_usd=node_usd
    )
