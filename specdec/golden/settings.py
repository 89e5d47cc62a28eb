"""How the golden server behaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from specdec.golden.truth import Speculation, Uniform

FAULTS: dict[str, str] = {
    "http-400": "refuses the request with a JSON error",
    "http-429": "says it is overloaded",
    "http-500": "fails with a JSON error",
    "http-502": "answers as a proxy does, with an HTML page",
    "error-event": "sends an error event in mid-stream",
    "cut": "closes the connection in mid-stream",
    "reset": "resets the connection in mid-stream",
    "no-finish": "ends the stream in the middle, cleanly, without finish reason and [DONE]",
    "silence": "reads the request and never answers",
    "stall": "stops in mid-stream and keeps the connection open",
    "early-eos": "stops half-way with finish_reason stop",
    "over-run": "sends more tokens than were asked for",
    "not-json": "sends an event that is not JSON",
    "not-a-chunk": "sends JSON that is not a completion chunk",
    "json-body": "answers with one JSON document instead of a stream",
    "empty": "sends [DONE] and nothing else",
    "bad-framing": "sends a chunk size that is not a number",
    "not-http": "answers with something that is not HTTP",
    "death": "closes every connection and listens no more",
}
"""Faults the server can play, and what each is."""

HTTP_FAULTS: dict[str, tuple[int, str, bytes]] = {
    "http-400": (
        400,
        "application/json",
        b'{"error":{"message":"golden: bad request","type":"invalid_request_error"}}',
    ),
    "http-429": (429, "application/json", b'{"error":{"message":"golden: too many requests"}}'),
    "http-500": (
        500,
        "application/json",
        b'{"object":"error","message":"golden: internal error","code":500}',
    ),
    "http-502": (502, "text/html", b"<html><body><h1>502 Bad Gateway</h1></body></html>"),
    "json-body": (
        200,
        "application/json",
        b'{"choices":[{"message":{"content":"all at once"},"finish_reason":"stop"}]}',
    ),
}
"""Faults that answer in place of a stream: status, content type, body."""

MIDWAY = (
    "error-event",
    "cut",
    "reset",
    "no-finish",
    "stall",
    "early-eos",
    "not-json",
    "not-a-chunk",
    "bad-framing",
    "death",
)
"""Faults that are played in the middle of a stream."""

Chunking = Literal["step", "token", "merged", "split", "packed"]
"""How tokens become events and writes. ``step``: an event per step. ``token``: an event per token, those of a
step in one write. ``merged``: an event per ``merge`` steps. ``split``: an event per step, each cut into three
writes. ``packed``: an event per token and writes cut in the middle of an event."""

Usage = Literal["continuous", "final", "own", "repeated", "timings", "none"]
"""Which counts are offered to a client that asks: cumulative usage on every event; usage at the end; usage on
every event that tells its own tokens, or the total of the whole answer, and usage at the end; llama.cpp's
timings; none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a service differs from vLLM.

    Attributes:
        opening: data of events before all others.
        delta: fields of every delta with text.
        every: fields of every event.
        mirrored: whether reasoning is repeated in ``reasoning_details``.
        usage_on_finish: whether the usage at the end is on the event with the finish reason, and not on one
            of its own.
        refused: names of request fields, with a dot inside another one, that are not known here.
        refused_in: whether they are refused by status 400, or by an event in a stream.
        buffer: bytes that must come together before anything is handed on; 0 for none.
        nodelay: whether small packets are sent at once (TCP_NODELAY).
    """

    opening: tuple[str, ...] = ()
    delta: dict[str, Any] = field(default_factory=dict[str, Any])
    every: dict[str, Any] = field(default_factory=dict[str, Any])
    mirrored: bool = False
    usage_on_finish: bool = False
    refused: tuple[str, ...] = ()
    refused_in: Literal["status", "stream"] = "status"
    buffer: int = 0
    nodelay: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Behaviour of the golden server.

    Attributes:
        ttft: seconds from a read request to its first token.
        step: seconds per step.
        jitter: share by which each step's length varies, both ways.
        batch_step: seconds by which every further sequence in service lengthens a step.
        max_num_seqs: most sequences in service; the others wait. None for no limit.
        first_tokens: tokens of the first step.
        per_step: tokens of each later step.
        chunking, merge: see ``Chunking``.
        usage: see ``Usage``.
        reasoning: share of the tokens that come as reasoning, before the rest.
        reasoning_field: name of the delta's field they come in.
        line_end: line ending of events: LF, CRLF or CR.
        comments: send a comment line before every event.
        role_event: begin a chat stream with an event that only names the role.
        counters: what ``/metrics`` shows: vLLM's speculation counters, the same at zero, or none.
        request_metrics: whether the last event carries per-request acceptance as vLLM reports it.
        fault, fault_every: fault played on every so many-th request; None for none.
        differs_at: 0-based token from which the text is another one, to break parity; None for never.
        model: served model's name.
        engine: ``owned_by`` of the served model.
        seed: fixes the tokens of all steps.
        dialect: see ``Dialect``.
        path: what stands in front of every route, such as ``/openai``; empty for none.
        key: key without which a request is refused; None for none.
    """

    ttft: float = 0.2
    step: float = 0.02
    jitter: float = 0.0
    batch_step: float = 0.0
    max_num_seqs: int | None = None
    first_tokens: int = 1
    per_step: Uniform | Speculation = field(default_factory=lambda: Uniform(1, 1))
    chunking: Chunking = "step"
    merge: int = 2
    usage: Usage = "continuous"
    reasoning: float = 0.0
    reasoning_field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    line_end: Literal["\n", "\r\n", "\r"] = "\n"
    comments: bool = False
    role_event: bool = True
    counters: Literal["vllm", "zero", "none"] = "vllm"
    request_metrics: bool = False
    fault: str | None = None
    fault_every: int = 1
    differs_at: int | None = None
    model: str = "golden"
    engine: str = "specdec-golden"
    seed: int = 1
    dialect: Dialect = Dialect()
    path: str = ""
    key: str | None = None
