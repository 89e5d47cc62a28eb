"""Which counts of a stream can be believed, and which token came when, once it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec.runs.record import TOTAL_ONLY, TokenSource

if TYPE_CHECKING:
    from specdec.benchmark.stream import CompletionStream

FLAT = 0.2
"""Share of the events with text whose count does not rise from which the counts are not cumulative ones. A
flush of text that was held back brings no token, and there are few of them."""

SLACK = 0.01
"""Share by which a total may differ from the number of events for each event to have brought one token: it
moves TPOT by as much. One more is allowed for, the end mark."""

MOST_TOKENS = 17
"""Tokens that an event of a speculative variant can carry where its window is not known: a step with window
16, beyond which no measured window has paid."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a stream tells of its tokens.

    Attributes:
        source: see ``TokenSource``.
        total: completion tokens, or None.
        times: ``perf_counter`` of each chunk.
        tokens: cumulative tokens at each of them, or None.
        steps: cumulative steps at each of them, or None.
        note: why the counts are not what they seem, or None.
    """

    source: TokenSource
    total: int | None
    times: list[float]
    tokens: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    note: str | None = None


def settle(stream: CompletionStream, *, requested: int | None, most: int) -> Counts:
    """Decides how the tokens of a stream were counted.

    Args:
        stream: ended.
        requested: the fixed length that was asked for, where the answer reached it.
        most: tokens that one event can carry: 1 on a plain variant, window + 1 on a speculative one.
    """
    stream_source = stream.source
    if stream_source in ("continuous-usage", "server-timings"):
        problem = None if stream_source == "server-timings" else _contradiction(stream)
        if problem is None:
            steps = tuple(stream.steps) if stream_source == "server-timings" else None
            return Counts(stream_source, stream.total, stream.times, tuple(stream.tokens), steps)
    else:
        problem = None
    total = stream.last_total if problem and stream.last_total is not None else stream.total
    events = len(stream.text_times)
    if problem and total is not None and total < events:
        total = None
    source: TokenSource = "none" if total is None else "final-usage"
    if total is None and requested is not None and stream.finish_reason == "length":
        source, total = "requested-length", requested
    if total is None or not events:
        return Counts(source, total, stream.text_times, note=problem)
    hidden = 0 if stream.reasoned else min(stream.reasoning_tokens or 0, total)
    visible = total - hidden
    if visible == events:
        # As many events as tokens, and every event brought at least one: each brought exactly one.
        tokens = tuple(range(hidden + 1, total + 1))
        return Counts(source, total, stream.text_times, tokens, note=problem)
    misfit = _misfit(stream, visible, hidden, most)
    if misfit is None:
        return Counts(source, total, stream.text_times, note=problem)
    return Counts(TOTAL_ONLY, total, stream.text_times, note="; ".join(filter(None, (problem, misfit))))


def _contradiction(stream: CompletionStream) -> str | None:
    """Why usage on every event cannot be a cumulative count, or None."""
    last, final = stream.tokens[-1], stream.last_total
    rising = not stream.fell and stream.flat <= max(1, FLAT * len(stream.text_times))
    if rising and (final is None or last <= final <= last + 1 + SLACK * last):
        return None
    return "the counts on the events do not rise with the text, and only the last total is used"


def _misfit(stream: CompletionStream, visible: int, hidden: int, most: int) -> str | None:
    """Why a total does not fit the events with text, or None where the first brought one token."""
    events = len(stream.text_times)
    slack = 1 + SLACK * events
    said = f"{visible} tokens counted and {events} events with text"
    if visible < events - slack:
        return f"{said}: fewer tokens than events, so no token has a time"
    if hidden or visible > max(events + slack, min(events * most, sum(stream.text_bytes))):
        return f"{said}: more tokens than they can carry, so no token has a time"
    first = visible * stream.text_bytes[0] / sum(stream.text_bytes)
    if visible > events + slack and first > max(2.0, 1 + SLACK * visible):
        return f"{said}, the first with about {first:.0f} tokens: no token has a time"
    return None
