"""Speculation counters from a server's ``/metrics`` page, as differences over a run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_SAMPLE = re.compile(
    r"^(?P<name>(?:vllm|llamacpp):spec_decode_num_"
    r"(?P<what>drafts|draft_tokens|accepted_tokens|accepted_tokens_per_pos)(?:_total)?)"
    r"(?:\{(?P<labels>[^}]*)\})?\s+(?P<value>[0-9.eE+-]+)",
    re.MULTILINE,
)
_POSITION = re.compile(r'position="(\d+)"')


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
    for sample in _SAMPLE.finditer(page):
        source = sample["name"].partition(":")[0]
        value = float(sample["value"])
        if sample["what"] == "accepted_tokens_per_pos":
            position = _POSITION.search(sample["labels"] or "")
            if position:
                positions[int(position[1])] = positions.get(int(position[1]), 0.0) + value
        else:
            totals[sample["what"]] = totals.get(sample["what"], 0.0) + value
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
