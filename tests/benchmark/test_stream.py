"""What streams of real servers look like, event by event."""

import json
from math import inf

import pytest

from specdec.benchmark.stream import BadStreamError, CompletionStream, ServerError


def read(*events: tuple[float, object]) -> CompletionStream:
    stream = CompletionStream()
    for stamp, data in events:
        text = data if isinstance(data, str) else json.dumps(data)
        stream.feed(f"data: {text}\n\n".encode(), stamp)
    return stream


def delta(content: str | None = None, *, reason: str | None = None, **fields: object) -> dict[str, object]:
    return {
        "choices": [
            {"index": 0, "delta": {} if content is None else {"content": content}, "finish_reason": reason}
        ],
        **fields,
    }


def usage(count: int) -> dict[str, int]:
    return {"prompt_tokens": 9, "completion_tokens": count}


def timings(count: int, accepted: int | None = None) -> dict[str, int]:
    return {"predicted_n": count} | (
        {} if accepted is None else {"draft_n": accepted + 2, "draft_n_accepted": accepted}
    )


def test_vllm_with_continuous_usage() -> None:
    stream = read(
        (1.0, delta("", usage=usage(0))),
        (2.0, delta(" a", usage=usage(1))),
        (3.0, delta(" b c d", usage=usage(4))),
        (4.0, delta("", reason="length", usage=usage(4))),
        (5.0, {"choices": [], "usage": usage(4)}),
        (5.0, "[DONE]"),
    )
    assert (stream.times, stream.tokens, stream.source) == ([2.0, 3.0], [1, 4], "continuous-usage")
    assert (stream.total, stream.prompt_tokens, stream.finish_reason, stream.ended, stream.text) == (
        4,
        9,
        "length",
        True,
        " a b c d",
    )
    assert stream.pieces == (2, 6)


def test_tokens_without_text_are_tokens() -> None:
    # With ignore_eos a model goes on past its end mark, which has no text; the step took its time all the
    # same.
    stream = read(
        (1.0, delta(" a", usage=usage(1))),
        (2.0, delta("", usage=usage(2))),
        (3.0, delta(" b", usage=usage(3))),
    )
    assert (stream.times, stream.tokens) == ([1.0, 2.0, 3.0], [1, 2, 3])


def test_text_without_tokens_is_no_chunk() -> None:
    stream = read((1.0, delta(" a", usage=usage(1))), (2.0, delta("(held back)", usage=usage(1))))
    assert (stream.times, stream.tokens, stream.text) == ([1.0], [1], " a(held back)")


def test_llama_cpp_tells_its_steps() -> None:
    # A plain step, then one that had three proposals accepted: four tokens, an event each.
    stream = read(
        (1.0, delta(None)),
        (2.0, delta("a", timings=timings(1))),
        (3.0, delta("b", timings=timings(2))),
        (4.0, delta("c", timings=timings(3, 3))),
        (4.1, delta("d", timings=timings(4, 3))),
        (4.2, delta("e", timings=timings(5, 3))),
        (4.3, delta("f", timings=timings(6, 3))),
        (5.0, delta("g", timings=timings(7, 3))),
        (5.1, delta(None, reason="length")),
        (5.1, {"choices": [], "usage": usage(7), "timings": timings(7, 3)}),
        (5.1, "[DONE]"),
    )
    assert (stream.times, stream.tokens, stream.source) == (
        [2.0, 3.0, 4.0, 5.0],
        [1, 2, 6, 7],
        "server-timings",
    )
    assert stream.steps == [1, 2, 3, 4]
    assert stream.server is not None
    assert (stream.server.drafts, stream.server.draft_tokens, stream.server.accepted_tokens) == (None, 5, 3)


def test_an_accepted_run_cut_by_the_length_is_kept() -> None:
    stream = read(
        (1.0, delta("a", timings=timings(1))),
        (2.0, delta("b", timings=timings(2, 5))),
        (2.1, delta("c", timings=timings(3, 5))),
        (3.0, "[DONE]"),
    )
    assert (stream.times, stream.tokens, stream.steps) == ([1.0, 2.0], [1, 3], [1, 2])


def test_a_token_inside_a_character_sends_no_event_but_is_a_step() -> None:
    stream = read(
        (1.0, delta("a", timings=timings(1))),
        (3.0, delta("城", timings=timings(4))),
        (4.0, delta("b", timings=timings(5))),
    )
    assert (stream.times, stream.tokens, stream.steps) == ([1.0, 3.0, 4.0], [1, 4, 5], [1, 4, 5])


def test_usage_at_the_end_only() -> None:
    stream = read(
        (1.0, delta(" a")),
        (2.0, delta(" b c")),
        (3.0, delta(reason="length")),
        (3.0, {"choices": [], "usage": usage(3)}),
    )
    assert (stream.times, stream.tokens, stream.total, stream.source) == ([1.0, 2.0], [], 3, "final-usage")


def test_usage_on_the_finish_event_is_no_chunk() -> None:
    stream = read((1.0, delta(" a")), (2.0, delta(" b")), (3.0, delta(reason="length", usage=usage(2))))
    assert (stream.times, stream.total, stream.source) == ([1.0, 2.0], 2, "final-usage")


def test_a_count_that_stays_at_zero_is_none() -> None:
    stream = read(
        (1.0, delta(" a", usage=usage(0))),
        (2.0, delta(" b", usage=usage(0))),
        (3.0, {"choices": [], "usage": usage(2)}),
    )
    assert (stream.times, stream.tokens, stream.source) == ([1.0, 2.0], [], "final-usage")


def test_nothing_to_count_by() -> None:
    stream = read((1.0, delta(" a")), (2.0, delta(reason="length")))
    assert (stream.times, stream.total, stream.source) == ([1.0], None, "none")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"reasoning_content": "hm"}, "hm"),
        ({"reasoning": "hm", "content": "so"}, "hmso"),
        ({"tool_calls": [{"function": {"name": "add", "arguments": '{"a":'}}]}, 'add{"a":'),
        ({"content": None, "role": "assistant"}, ""),
    ],
)
def test_every_kind_of_delta(fields: dict[str, object], text: str) -> None:
    stream = read((1.0, {"choices": [{"delta": fields}]}))
    assert stream.text == text
    assert len(stream.times) == (1 if text else 0)


def test_completions_layout() -> None:
    stream = read((1.0, {"choices": [{"text": " a", "finish_reason": None}], "usage": usage(1)}))
    assert (stream.times, stream.text) == ([1.0], " a")


def test_vllm_reports_acceptance_per_request() -> None:
    counted = {
        "num_spec_steps": 43,
        "num_accepted_draft_tokens": 10,
        "num_draft_tokens": 129,
        "num_spec_tokens": 3,
    }
    stream = read((1.0, {"choices": [], "usage": usage(53), "metrics": {"speculative_decoding": counted}}))
    assert stream.server is not None
    assert (stream.server.drafts, stream.server.draft_tokens, stream.server.accepted_tokens) == (43, 129, 10)
    assert stream.server.source == "metrics.speculative_decoding"


def test_near_ties_in_both_layouts() -> None:
    chat = {"content": [{"logprob": -0.1, "top_logprobs": [{"logprob": -0.1}, {"logprob": -2.5}]}]}
    plain = {"top_logprobs": [{" a": -0.5, " b": -0.75}]}
    told = [
        (1.0, {"choices": [{"delta": {"content": "x"}, "logprobs": chat}]}),
        (2.0, {"choices": [{"text": "y", "logprobs": plain}]}),
    ]
    assert read(*told).near_tie == [2.4, 0.25]
    # A position that tells one token only would shift all that follow, so that none is better than wrong
    # ones.
    lonely = {"content": [{"top_logprobs": [{"logprob": -1}]}]}
    assert read(*told, (3.0, {"choices": [{"delta": {"content": "z"}, "logprobs": lonely}]})).near_tie == []


@pytest.mark.parametrize(
    "event",
    [
        'data: {"error":{"message":"out of memory"}}\n\n',
        'data: {"error":"out of memory"}\n\n',
        'data: {"object":"error","message":"out of memory","code":500}\n\n',
        'event: error\ndata: {"message":"out of memory"}\n\n',
        "event: error\ndata: out of memory\n\n",
        'event: error\ndata: "out of memory"\n\n',
    ],
)
def test_errors_in_the_servers_words(event: str) -> None:
    with pytest.raises(ServerError, match=r"^out of memory$"):
        CompletionStream().feed(event.encode(), 1.0)


@pytest.mark.parametrize(
    "data",
    [
        "{",
        "[1]",
        "3",
        '{"a":1}',
        '{"choices":3}',
        '{"choices":["x"]}',
        '{"choices":[{"delta":3}]}',
        '{"choices":[],"usage":3}',
    ],
)
def test_what_is_no_completion_stream(data: str) -> None:
    with pytest.raises(BadStreamError):
        CompletionStream().feed(f"data: {data}\n\n".encode(), 1.0)


def test_counts_that_go_back_and_counts_of_another_type_spoil_no_record() -> None:
    stream = read(
        (1.0, delta(" a", usage=usage(5))),
        (2.0, delta(" b", usage=usage(3))),
        (3.0, delta(" c", usage=usage(4))),
        (4.0, delta(" d", usage={"prompt_tokens": "nine", "completion_tokens": 6})),
    )
    assert (stream.times, stream.tokens, stream.prompt_tokens) == ([1.0, 4.0], [5, 6], 9)


HARMLESS = [
    "data: null\n\n",
    "data:\n\n",
    "data:   \n\n",
    "data: {}\n\n",
    'data: {"choices": null}\n\n',
    'data: {"object": "chat.completion.chunk", "choices": null, "usage": null}\n\n',
    'data: {"error": null}\n\n',
    'event: ping\ndata: {"type": "ping"}\n\n',
    "event: ping\ndata: now\n\n",
    'data: {"type": "ping"}\n\n',
    "event: heartbeat\ndata:\n\n",
    ": comment\n\n",
]


@pytest.mark.parametrize("event", HARMLESS)
@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_events_that_hold_nothing_change_nothing(event: str, place: str) -> None:
    events = [json.dumps(delta(" a", usage=usage(1))), json.dumps(delta(" b", usage=usage(2)))]
    stream = CompletionStream()
    for number, data in enumerate(events):
        if place == "before" or (place == "between" and number):
            stream.feed(event.encode(), 1.0)
        stream.feed(f"data: {data}\n\n".encode(), 2.0 + number)
    if place == "after":
        stream.feed(event.encode(), 9.0)
    assert (stream.times, stream.tokens, stream.text) == ([2.0, 3.0], [1, 2], " a b")


def test_an_error_field_that_is_empty_is_no_error() -> None:
    stream = read((1.0, delta(" a", error=None)), (2.0, delta(" b", error="")), (3.0, delta(" c", error={})))
    assert stream.text == " a b c"


def test_half_a_character_in_each_of_two_events_is_one() -> None:
    stream = read((1.0, delta("\ud83d")), (2.0, delta("\ude00")), (3.0, delta("\udc00!")))
    assert stream.text == "\U0001f600\ufffd!"


def test_a_token_that_cannot_come_leaves_no_gap() -> None:
    logprobs = {"content": [{"top_logprobs": [{"logprob": 0.0}, {"logprob": float("-inf")}]}]}
    stream = read((1.0, {"choices": [{"delta": {"content": "x"}, "logprobs": logprobs}]}))
    assert stream.near_tie == []


@pytest.mark.parametrize("value", [True, -1, 2**60, 1.5, "3", [1], {"a": 1}, None])
@pytest.mark.parametrize("field", ["completion_tokens", "prompt_tokens"])
def test_what_cannot_be_a_count_is_none(field: str, value: object) -> None:
    stream = read((1.0, delta("x", usage={"completion_tokens": 1, "prompt_tokens": 5} | {field: value})))
    counts = {"completion_tokens": stream.total, "prompt_tokens": stream.prompt_tokens}
    assert counts == {"completion_tokens": 1, "prompt_tokens": 5} | {field: None}


SPECULATION = {"num_draft_tokens": 4, "num_accepted_draft_tokens": 1, "num_spec_steps": 1}


@pytest.mark.parametrize(
    "data",
    [
        "[" * 100_000,
        json.dumps(
            {"choices": [{}], "metrics": {"speculative_decoding": SPECULATION | {"num_draft_tokens": inf}}}
        ),
        json.dumps(
            {"choices": [{}], "metrics": {"speculative_decoding": SPECULATION | {"num_spec_steps": -inf}}}
        ),
        json.dumps({"choices": [], "usage": {"x": 1}, "timings": {"draft_n": inf}}),
    ],
)
def test_an_event_that_no_parser_likes_spoils_its_request_alone(data: str) -> None:
    with pytest.raises(BadStreamError) as caught:
        CompletionStream().feed(f"data: {data}\n\n".encode(), 1.0)
    assert len(str(caught.value)) < 200
