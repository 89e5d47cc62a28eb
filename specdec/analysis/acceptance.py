"""How many tokens a step emits, and how far into the window proposals are kept.

Read at the client, from the tokens each step brought, since the counters of fused stacks stay at zero; where
the server tells accepted tokens per request, the mean is taken from those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from specdec.analysis.step_reading import read_steps
from specdec.analysis.verdict import Acceptance, PositionAcceptance, StepSource
from specdec.catalog.conventions import Convention
from specdec.runs.record import RequestRecord


def mean_proposal(counters: dict[str, Any] | None) -> float | None:
    """Mean tokens proposed by a step that proposed any, from a variant's counters over the run; None where
    not reported.
    """
    if not counters or not counters.get("drafts") or not counters.get("draft_tokens"):
        return None
    return counters["draft_tokens"] / counters["drafts"]


def reports_proposals(records: Sequence[RequestRecord]) -> bool:
    """Whether a variant's server tells its speculation per request. A request without the field then proposed
    nothing.
    """
    return any(record.server is not None for record in records)


def proposed_and_accepted(records: Sequence[RequestRecord]) -> tuple[int, int]:
    """Sums of the server's counts; meaningful where ``reports_proposals`` holds."""
    servers = [record.server for record in records if record.server is not None]
    return sum(server.draft_tokens for server in servers), sum(server.accepted_tokens for server in servers)


def drafted_steps(records: Sequence[RequestRecord], *, every: int, proposal: float | None) -> int:
    """Steps that had proposals to verify.

    Args:
        records: of one variant.
        every: all their steps. A draft model proposes in each; look-up drafting only where it finds a match.
        proposal: mean tokens per proposal over the run (see ``mean_proposal``), used where the server tells
            proposed tokens per request but not in how many steps.
    """
    servers = [record.server for record in records if record.server is not None]
    if servers and all(server.drafts is not None for server in servers):
        return min(every, sum(server.drafts or 0 for server in servers))
    if servers and proposal is not None:
        return min(every, round(sum(server.draft_tokens for server in servers) / proposal))
    return every


def acceptance(
    records: Sequence[RequestRecord],
    *,
    convention: Convention,
    window: int | None,
    source: StepSource | None,
    counters: dict[str, Any] | None = None,
    told: bool = False,
) -> Acceptance | None:
    """Acceptance of one variant on one test case.

    Args:
        records: its measured requests.
        convention: how many of a window's proposals are usable.
        window: num_speculative_tokens; None for a plain variant.
        source: how steps can be read from the stream; see ``step_reading.step_source``.
        counters: the variant's server counters over the run.
        told: whether its server tells speculation per request; see ``reports_proposals``.

    Returns:
        None when neither stream nor server can tell.
    """
    read = (
        [steps for record in records if (steps := read_steps(record)) is not None]
        if source is not None
        else []
    )
    every = sum(len(steps.tokens) for steps in read)
    emitted = sum(sum(steps.tokens) for steps in read)
    proposed = accepted = None
    if told:
        proposed, accepted = proposed_and_accepted(records)
        # Prefill emits one token, every step its accepted ones and one more.
        totals = [(record.output_tokens or 0) - 1 for record in records]
        if sum(totals) - accepted > 0:
            source, emitted, every = "server-per-request", sum(totals), sum(totals) - accepted
    if source is None or not every:
        return None
    sizes = Counter(chain.from_iterable(steps.uncut for steps in read))
    drafted = (
        drafted_steps(records, every=every, proposal=mean_proposal(counters)) if window is not None else None
    )
    positions = (
        by_position(sizes, usable=convention.usable(window), undrafted=1 - (drafted or 0) / every)
        if window
        else ()
    )
    reached = sum(position.reached for position in positions)
    return Acceptance(
        tokens_per_step=emitted / every,
        source=source,
        steps=every,
        histogram=tuple(sorted(sizes.items())),
        by_position=positions,
        rate=sum(position.accepted for position in positions) / reached if reached else None,
        proposed=proposed,
        accepted=accepted,
        drafted_steps=drafted if told else None,
    )


def by_position(sizes: Counter[int], *, usable: int, undrafted: float) -> tuple[PositionAcceptance, ...]:
    """Acceptance per position from the sizes of steps.

    A step of ``s`` tokens accepted ``s - 1`` proposals. Sizes beyond what the window allows come from steps
    that reached the client together and count as full ones.

    Args:
        sizes: tokens of a step to number of steps.
        usable: proposals that can be accepted in one step.
        undrafted: share of all steps that had nothing to verify; they emitted one token each.
    """
    every = sum(sizes.values())
    if not every:
        return ()
    reached = every - min(round(undrafted * every), sizes[1])
    positions: list[PositionAcceptance] = []
    for position in range(1, usable + 1):
        if reached == 0:
            break
        accepted = sum(steps_ for size, steps_ in sizes.items() if size > position)
        positions.append(
            PositionAcceptance(
                position=position,
                reached=reached,
                accepted=accepted,
                conditional=accepted / reached,
                survival=accepted / every,
            )
        )
        reached = accepted
    return tuple(positions)
