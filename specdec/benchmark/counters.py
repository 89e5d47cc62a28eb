"""Speculation counters from a server's ``/metrics`` page, as differences over a run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specdec.benchmark.metrics_page import samples

_SERVERS = ("vllm", "llamacpp")
_PREFIX = "spec_decode_num_"
_TOTALS = ("drafts", "draft_tokens", "accepted_tokens")
_BY_POSITION = "accepted_tokens_per_pos"


@dataclass(frozen=True, slots=True)
class Counters:
    """What the page said.

    Attributes:
        totals: ``drafts``, ``draft_tokens``, ``accepted_tokens``, summed over engines; only those that were
            there.
        by_position: accepted tokens per 0-based position of the window.
        source: prefix of the counters' names.
    """

    totals: dict[str, float]
    by_position: dict[int, float] = field(default_factory=dict[int, float])
    source: str = ""


def parse(page: str) -> Counters | None:
    """Reads a Prometheus text page; None if it has no speculation counter."""
    totals: dict[str, float] = {}
    positions: dict[int, float] = {}
    source = ""
    for sample in samples(page, *(f"{server}:{_PREFIX}" for server in _SERVERS)):
        server, _, name = sample.name.removesuffix("_total").partition(":")
        what = name.removeprefix(_PREFIX)
        if server not in _SERVERS or what == name:
            continue
        if what == _BY_POSITION and sample.labels.get("position", "").isdecimal():
            position = int(sample.labels["position"])
            positions[position] = positions.get(position, 0.0) + sample.value
        elif what in _TOTALS:
            source = server
            totals[what] = totals.get(what, 0.0) + sample.value
    return Counters(totals, positions, f"{source}:spec_decode_*") if totals else None


def difference(before: Counters | None, after: Counters | None) -> dict[str, Any] | None:
    """What was counted between two pages: whole numbers per counter, ``accepted_per_position`` as a list,
    ``source``.

    None where the server reports nothing: no counters, a restart in between, or all zero. A stack that drafts
    inside the compiled graph leaves its counters at zero, and zero must not be read as "nothing was
    accepted".
    """
    if before is None or after is None:
        return None
    counted = {name: round(value - before.totals.get(name, 0.0)) for name, value in after.totals.items()}
    if not any(counted.values()) or any(value < 0 for value in counted.values()):
        return None
    positions = [
        round(after.by_position[p] - before.by_position.get(p, 0.0)) for p in sorted(after.by_position)
    ]
    return {**counted, "accepted_per_position": positions or None, "source": after.source}


def summed(differences: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Several differences as one; None where there is none, or one is not known."""
    known = [difference for difference in differences if difference is not None]
    if not known or len(known) < len(differences):
        return None
    first, *others = known
    for other in others:
        positions = itertools.zip_longest(
            first["accepted_per_position"] or (), other["accepted_per_position"] or (), fillvalue=0
        )
        counted = {name: first.get(name, 0) + other.get(name, 0) for name in _TOTALS if name in first}
        first = {**first, **counted, "accepted_per_position": [a + b for a, b in positions] or None}
    return first
