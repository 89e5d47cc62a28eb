"""Counts of many dialects: which are believed, and what is said of the others."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from specdec.benchmark.counts import Counts, settle
from specdec.benchmark.stream import CompletionStream

LENGTHS = (2, 3, 7, 60, 600)
SPECULATIVE = 8


def stream(
    sizes: Sequence[int], *, counts: Sequence[int | None] = (), final: int | None = None, thought: int = 0
) -> CompletionStream:
    """An answer of one event per size, tokens of five letters, with a count on each event where given."""
    read = CompletionStream()
    told: Sequence[int | None] = counts or [None] * len(sizes)
    for number, (size, count) in enumerate(zip(sizes, told, strict=True)):
        event: dict[str, object] = {"choices": [{"delta": {"content": " word" * size}}]}
        if count is not None:
            event["usage"] = {"completion_tokens": count}
        read.feed(f"data: {json.dumps(event)}\n\n".encode(), 1.0 + number)
    end: dict[str, object] = {"choices": [{"delta": {}, "finish_reason": "length"}]}
    read.feed(f"data: {json.dumps(end)}\n\n".encode(), 1.0 + len(sizes))
    if final is not None:
        details = {"completion_tokens_details": {"reasoning_tokens": thought}} if thought else {}
        usage: dict[str, object] = {"choices": [], "usage": {"completion_tokens": final, **details}}
        read.feed(f"data: {json.dumps(usage)}\n\n".encode(), 1.0 + len(sizes))
    return read


def settled(read: CompletionStream, *, requested: int | None = None, most: int = 1) -> Counts:
    return settle(read, requested=requested, most=most)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    "told", ["own tokens on each event", "the final total on each event", "zero on each event"]
)
def test_counts_that_do_not_rise_give_way_to_the_final_total(length: int, told: str) -> None:
    each = {"own tokens on each event": 1, "the final total on each event": length, "zero on each event": 0}
    counts = settled(stream([1] * length, counts=[each[told]] * length, final=length))
    assert counts.total == length
    if length > 2:
        assert (counts.source, counts.tokens) == ("final-usage", tuple(range(1, length + 1)))
        assert bool(counts.note) == (each[told] > 0)


@pytest.mark.parametrize("length", [7, 60])
def test_counts_of_each_event_without_a_total_are_no_counts(length: int) -> None:
    read = stream([1] * length, counts=[1] * length)
    assert settled(read).source == "none"
    assert settled(read, requested=length).tokens == tuple(range(1, length + 1))


def test_own_tokens_of_a_speculative_server_are_no_cumulative_count() -> None:
    sizes = [1, 4, 2, 5, 3, 1, 5, 5, 4] * 4
    counts = settled(stream(sizes, counts=sizes, final=sum(sizes)), most=SPECULATIVE)
    assert (counts.source, counts.total, counts.tokens) == ("final-usage", sum(sizes), None)
    assert counts.note is not None
    assert "do not rise" in counts.note


@pytest.mark.parametrize(("hidden", "shown"), [(90, 30), (1, 40), (500, 2), (3, 300)])
def test_tokens_thought_in_silence_are_placed_where_the_server_says_how_many(hidden: int, shown: int) -> None:
    counts = settled(stream([1] * shown, final=hidden + shown, thought=hidden))
    assert counts.tokens == tuple(range(hidden + 1, hidden + shown + 1))


@pytest.mark.parametrize(("hidden", "shown"), [(90, 30), (12, 40), (500, 2)])
def test_tokens_thought_in_silence_have_no_time_where_it_does_not(hidden: int, shown: int) -> None:
    counts = settled(stream([1] * shown, final=hidden + shown))
    assert (counts.source, counts.tokens, counts.total) == ("total-only", None, hidden + shown)
    assert counts.note is not None
    assert f"{hidden + shown} tokens counted and {shown} events with text" in counts.note


def test_a_total_below_the_events_places_no_token() -> None:
    # A proxy cuts the text anew, so that events are words and not tokens.
    assert settled(stream([1] * 60, final=40)).source == "total-only"


@pytest.mark.parametrize("first", [1, 2])
def test_steps_of_a_speculative_server_that_counts_at_the_end(first: int) -> None:
    sizes = [first, *([4, 6, 5] * 20)]
    counts = settled(stream(sizes, final=sum(sizes)), most=SPECULATIVE)
    assert (counts.source, counts.note) == ("final-usage", None)


@pytest.mark.parametrize("first", [8, 40])
def test_a_first_event_of_many_tokens_places_no_token(first: int) -> None:
    sizes = [first, *([4, 6, 5] * 20)]
    assert settled(stream(sizes, final=sum(sizes)), most=SPECULATIVE).source == "total-only"


def test_a_plain_variant_sends_no_event_of_several_tokens() -> None:
    assert settled(stream([1, 4, 4, 4], final=13), most=1).source == "total-only"


def test_the_end_mark_is_a_token_without_an_event() -> None:
    counts = settled(stream([1] * 40, final=41))
    assert (counts.source, counts.total, counts.tokens) == ("final-usage", 41, None)


@pytest.mark.parametrize("final", [60, 61])
def test_cumulative_counts_are_believed(final: int) -> None:
    counts = settled(stream([1] * 60, counts=list(range(1, 61)), final=final))
    assert (counts.source, counts.tokens, counts.note) == ("continuous-usage", tuple(range(1, 61)), None)
