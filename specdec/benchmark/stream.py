"""What an OpenAI-compatible completion stream says: when tokens came, how many, which text, how it ended."""

from __future__ import annotations

import json
from typing import Any, cast

from specdec.benchmark.sse import Decoder
from specdec.runs.record import ServerSpeculation, TokenSource

TEXT_FIELDS = ("reasoning_content", "reasoning", "content", "text")
"""Fields of a delta (chat) or of a choice (completions) that carry text. Servers name reasoning either way,
never both.
"""


class BadStreamError(Exception):
    """The response is no completion stream."""


class ServerError(Exception):
    """The server reported an error inside the stream."""


class CompletionStream:
    """Reads one response while it arrives.

    A chunk is an event that brings tokens: one that raises the cumulative count or, where the server sends no
    count, one with text. A role event is no chunk, and neither is a flush of held-back text that brings no
    new token.

    llama.cpp sends each token of an accepted run as an event of its own. Its ``timings`` tell the steps
    exactly: every step yields one token of the target and the accepted ones, so ``predicted_n -
    draft_n_accepted`` counts finished steps, and the events of one step are kept as one chunk that came with
    the first of them.

    Attributes:
        times: ``perf_counter`` of each chunk.
        tokens: cumulative completion tokens at each chunk; shorter than ``times`` where counts are missing.
        steps: finished steps at each chunk where ``timings`` tell; else empty. A token that ends inside a
            character brings no event of its own, so that one chunk can hold several steps.
        total: completion tokens by the server's last word, or None.
        prompt_tokens: by the server, or None.
        finish_reason: by the server, or None.
        ended: whether ``[DONE]`` came.
        server: speculation counters of this request, or None where not reported.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.tokens: list[int] = []
        self.steps: list[int] = []
        self.total: int | None = None
        self.prompt_tokens: int | None = None
        self.finish_reason: str | None = None
        self.ended = False
        self.server: ServerSpeculation | None = None
        self._gaps: list[float | None] = []
        self._texts: list[str] = []
        self._decoder = Decoder()
        self._timings = False
        self._finished = 0
        self._open: tuple[float, int] | None = None

    def feed(self, piece: bytes, stamp: float) -> None:
        """Takes a piece of the body that arrived at ``stamp``.

        Raises:
            BadStreamError: an event is not JSON or not a completion chunk.
            ServerError: an error event, in the server's words.
        """
        try:
            events = self._decoder.feed(piece)
        except ValueError as error:
            raise BadStreamError(str(error)) from None
        for event in events:
            if event.data == "[DONE]":
                self.ended = True
                self._close_step()
                continue
            try:
                chunk: Any = json.loads(event.data)
            except ValueError:
                if event.type == "error":
                    raise ServerError(event.data[:500]) from None
                raise BadStreamError(f"an event that is not JSON: {event.data[:80]!r}") from None
            if (
                event.type == "error"
                or not isinstance(chunk, dict)
                or "error" in chunk
                or cast("dict[str, Any]", chunk).get("object") == "error"
            ):
                raise _error(event.type, chunk)
            try:
                self._chunk(cast("dict[str, Any]", chunk), stamp)
            except (AttributeError, KeyError, TypeError, ValueError):
                raise BadStreamError(f"an event of another layout: {event.data[:80]!r}") from None

    @property
    def text(self) -> str:
        """The output so far: reasoning first, then content, in order of arrival."""
        return "".join(self._texts)

    @property
    def near_tie(self) -> list[float]:
        """Gap in log-probability between the two best tokens at each position; empty unless told for every
        position.
        """
        return [] if None in self._gaps else [gap for gap in self._gaps if gap is not None]

    @property
    def source(self) -> TokenSource:
        """Where the counts come from; ``none`` without any from the server."""
        if self.times and len(self.tokens) == len(self.times):
            return "server-timings" if self._timings else "continuous-usage"
        return "none" if self.total is None else "final-usage"

    def _chunk(self, chunk: dict[str, Any], stamp: float) -> None:
        choices = cast("list[dict[str, Any]] | None", chunk.get("choices"))
        if not isinstance(choices, list):
            raise BadStreamError(f"an event without choices: {json.dumps(chunk)[:80]}")
        text = self._choice(choices[0]) if choices else ""
        usage = cast("dict[str, Any]", chunk.get("usage") or {})
        timings = cast("dict[str, Any]", chunk.get("timings") or {})
        self._speculation(chunk, timings)
        count = usage.get("completion_tokens", timings.get("predicted_n"))
        asked = usage.get("prompt_tokens")
        self.prompt_tokens = asked if isinstance(asked, int) else self.prompt_tokens
        # A server that takes tokens back has brought none until it is past the most it had told.
        before = max(self.total or 0, self.tokens[-1] if self.tokens else 0)
        if isinstance(count, int):
            self.total = count
        if not choices:
            return
        if not isinstance(count, int):
            if text:
                self.times.append(stamp)
        elif count > before and len(self.tokens) == len(self.times):
            if "completion_tokens" not in usage:
                self._timings = True
                self._step(stamp, count, count - int(timings.get("draft_n_accepted") or 0))
            else:
                self.times.append(stamp)
                self.tokens.append(count)
        elif text and (len(self.tokens) < len(self.times) or count == 0):
            self.times.append(stamp)

    def _choice(self, choice: dict[str, Any]) -> str:
        if choice.get("finish_reason") is not None:
            self.finish_reason = str(choice["finish_reason"])
        delta = cast("dict[str, Any]", choice.get("delta") or choice)
        text = "".join(delta[name] for name in TEXT_FIELDS if isinstance(delta.get(name), str))
        for call in cast("list[dict[str, Any]]", delta.get("tool_calls") or []):
            function = cast("dict[str, Any]", call.get("function") or {})
            text += "".join(
                function[name] for name in ("name", "arguments") if isinstance(function.get(name), str)
            )
        if text:
            self._texts.append(text)
        if choice.get("logprobs"):
            self._gaps.extend(_gaps(choice["logprobs"]))
        return text

    def _step(self, stamp: float, count: int, finished: int) -> None:
        self._open = (self._open[0] if self._open else stamp, count)
        if finished > self._finished:
            self._finished = finished
            self._close_step()

    def _close_step(self) -> None:
        if self._open is not None:
            self.times.append(self._open[0])
            self.tokens.append(self._open[1])
            # A run that the length cut short was a step too, though its count of finished steps never came.
            self._finished = max(self._finished, self.steps[-1] + 1 if self.steps else 1)
            self.steps.append(self._finished)
            self._open = None

    def _speculation(self, chunk: dict[str, Any], timings: dict[str, Any]) -> None:
        if "draft_n" in timings:
            self.server = ServerSpeculation(
                None, int(timings["draft_n"]), int(timings.get("draft_n_accepted") or 0), "timings"
            )
        metrics = cast("dict[str, Any]", chunk.get("metrics") or {})
        reported = cast("dict[str, Any]", metrics.get("speculative_decoding") or {})
        if "num_draft_tokens" in reported and "num_accepted_draft_tokens" in reported:
            self.server = ServerSpeculation(
                None if reported.get("num_spec_steps") is None else int(reported["num_spec_steps"]),
                int(reported["num_draft_tokens"]),
                int(reported["num_accepted_draft_tokens"]),
                "metrics.speculative_decoding",
            )


def _error(event_type: str, chunk: Any) -> BadStreamError | ServerError:
    if not isinstance(chunk, dict):
        return (
            ServerError(str(chunk)[:500])
            if event_type == "error"
            else BadStreamError(f"an event that is no object: {str(chunk)[:80]}")
        )
    fields = cast("dict[str, Any]", chunk)
    error: Any = fields.get("error", fields)
    return ServerError(
        str(cast("dict[str, Any]", error).get("message", error) if isinstance(error, dict) else error)[:500]
    )


def _gaps(logprobs: dict[str, Any]) -> list[float | None]:
    """Gap between the two best tokens at each position of one choice, in the chat and in the completions
    layout.
    """
    positions: list[list[float]] = []
    if logprobs.get("content"):
        content = cast("list[dict[str, Any]]", logprobs["content"])
        tops = [cast("list[dict[str, Any]]", item.get("top_logprobs") or []) for item in content]
        positions = [[float(top["logprob"]) for top in row] for row in tops]
    elif logprobs.get("top_logprobs"):
        rows = cast("list[dict[str, float] | None]", logprobs["top_logprobs"])
        positions = [list((row or {}).values()) for row in rows]
    best = [sorted(values, reverse=True)[:2] for values in positions]
    return [round(pair[0] - pair[1], 6) if len(pair) == 2 else None for pair in best]
