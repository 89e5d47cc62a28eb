"""The pages of numbers that a server keeps of itself, read with a client's own connection."""

from __future__ import annotations

from specdec.benchmark import counters, gauges
from specdec.benchmark.client import Client
from specdec.benchmark.http1 import Cut, ProtocolError, Refused


async def gauges_of(client: Client) -> gauges.Gauges | None:
    """Requests that the server runs and keeps waiting now; None where it does not tell."""
    page = await _metrics_page(client)
    return None if page is None else gauges.parse(page)


async def counters_of(client: Client) -> counters.Counters | None:
    """What the server has drafted and accepted so far; None where it does not tell."""
    page = await _metrics_page(client)
    return None if page is None else counters.parse(page)


async def _metrics_page(client: Client) -> str | None:
    try:
        status, body, _ = await client.get(client.endpoint.of_server("/metrics"))
    except (Refused, TimeoutError, Cut, ProtocolError):
        return None
    return body.decode(errors="replace") if status == 200 else None
