"""What a list of loads must be, and how much of a run checks itself, in an experiment file and on a command
line alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdec.errors import Mistake

SELF_CHECK_SHARE = 0.25
"""Share of the blocks in which the baseline is measured against itself, unless a run says otherwise."""


def load_mistakes(field: str, loads: Sequence[float], *, closed: bool) -> Iterator[Mistake]:
    """Mistakes in a list of loads that are to be measured in turn.

    Args:
        field: name of the list, for the message.
        loads: requests in flight if ``closed``, else requests per second.
        closed: whether requests are kept in flight.
    """
    wrong = [load for load in loads if load <= 0 or (closed and load != int(load))]
    if wrong:
        kind = "whole numbers of requests in flight, 1 or more" if closed else "rates above 0"
        yield Mistake(field, wrong, f"are not {kind}", "Correct or remove them")
    if list(loads) != sorted(set(loads)):
        ascending = ", ".join(f"{load:g}" for load in sorted(set(loads)))
        yield Mistake(field, list(loads), "must be ascending, each load once", f"Write {ascending}")
