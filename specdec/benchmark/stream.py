"""Reads an OpenAI-compatible completion stream: when tokens came, how many, which text, how it ended."""

from __future__ import annotations

import json
import math
from typing import Any, cast

from specdec.benchmark import delta
from specdec.benchmark.sse import Decoder
from specdec.runs.record import ServerSpeculation, TokenSource
from specdec.text import has_halves

HEARTBEATS = ("ping", "heartbeat", "keep-alive", "keepalive")
"""Values of ``type`` in an event that only keeps the connection open."""


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
        text_times, text_bytes: ``perf_counter`` and bytes of UTF-8 of each event with text, whatever its
            count.
        flat: events with text whose count did not rise, once there were counts.
        fell: whether a count was lower than one before it.
        last_total: the count in an event that brings nothing else, or None.
        reasoning_tokens: of the total, by the server, or None.
        reasoned: whether reasoning was read.
        unread: names of fields that hold something and were not read.
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
        self.text_times: list[float] = []
        self.text_bytes: list[int] = []
        self.flat = 0
        self.fell = False
        self.last_total: int | None = None
        self.reasoning_tokens: int | None = None
        self.reasoned = False
        self.unread: dict[str, None] = {}
        self._gaps: list[float | None] = []
        self._texts: list[str] = []
        self._halves = False
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
            data = event.data.strip()
            if data == "[DONE]":
                self.ended = True
                self._close_step()
                continue
            if not data or (event.type not in ("message", "error") and not data.startswith("{")):
                continue
            try:
                chunk: Any = json.loads(data)
            except (ValueError, RecursionError):
                if event.type == "error":
                    raise ServerError(data[:500]) from None
                raise BadStreamError(f"an event that is not JSON: {data[:80]!r}") from None
            if _is_error(event.type, chunk):
                raise _error(event.type, chunk)
            if _says_nothing(event.type, chunk):
                continue
            try:
                self._chunk(cast("dict[str, Any]", chunk), stamp)
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
                raise BadStreamError(f"an event of another layout: {data[:80]!r}") from None

    @property
    def text(self) -> str:
        """The output so far, in order of arrival. A pair of surrogates that two events share is one
        character.
        """
        text = "".join(self._texts)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if self._halves else text

    @property
    def pieces(self) -> tuple[int, ...] | None:
        """Characters of ``text`` that each event with text brought; None where two events share one."""
        return None if self._halves else tuple(map(len, self._texts))

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
        choices = _choices(chunk)
        size = self._choice(choices[0]) if choices else 0
        usage = cast("dict[str, Any]", chunk.get("usage") or {})
        timings = cast("dict[str, Any]", chunk.get("timings") or {})
        if timings or chunk.get("metrics"):
            self._speculation(chunk, timings)
        if usage:
            self._details(usage)
        count = _whole(usage.get("completion_tokens", timings.get("predicted_n")))
        if size:
            self.text_times.append(stamp)
            self.text_bytes.append(size)
        if choices:
            self._place(stamp, count, size, timings if "completion_tokens" not in usage else None)
        elif count is not None:
            self.last_total = count
        if count is not None:
            self.total = count

    def _place(self, stamp: float, count: int | None, size: int, timings: dict[str, Any] | None) -> None:
        """Takes the count of an event with a choice; ``timings`` where it is llama.cpp's."""
        # A server that takes tokens back has brought none until it is past the most it had told.
        before = max(self.total or 0, self.tokens[-1] if self.tokens else 0)
        counted = len(self.tokens) == len(self.times)
        if count is not None:
            self.fell |= count < before
            if count > before and counted:
                if timings is not None:
                    self._timings = True
                    self._step(stamp, count, count - int(timings.get("draft_n_accepted") or 0))
                else:
                    self.times.append(stamp)
                    self.tokens.append(count)
                return
        if not size:
            return
        if not count or not counted:
            self.times.append(stamp)
        else:
            self.flat += 1

    def _details(self, usage: dict[str, Any]) -> None:
        asked = _whole(usage.get("prompt_tokens"))
        self.prompt_tokens = self.prompt_tokens if asked is None else asked
        details = cast("dict[str, Any]", usage.get("completion_tokens_details") or {})
        thought = _whole(details.get("reasoning_tokens", usage.get("reasoning_tokens")))
        self.reasoning_tokens = self.reasoning_tokens if thought is None else thought

    def _choice(self, choice: dict[str, Any]) -> int:
        """Takes a choice, and gives the bytes of its text."""
        if choice.get("finish_reason") is not None:
            self.finish_reason = str(choice["finish_reason"])
        piece = delta.read(choice)
        self.reasoned |= piece.reasoned
        self.unread.update(dict.fromkeys(piece.unread))
        if choice.get("logprobs"):
            self._gaps.extend(_gaps(choice["logprobs"]))
        if not piece.text:
            return 0
        self._texts.append(piece.text)
        self._halves = self._halves or has_halves(piece.text)
        return len(piece.text.encode("utf-8", "surrogatepass"))

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
        if timings.get("draft_n") is not None:
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


def _whole(value: object) -> int | None:
    """A count as a server tells it, or None for what cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _choices(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    choices: Any = chunk.get("choices") or []
    if not isinstance(choices, list) or ("choices" not in chunk and not chunk.get("usage")):
        raise BadStreamError(f"an event without choices: {json.dumps(chunk)[:80]}")
    return cast("list[dict[str, Any]]", choices)


def _is_error(event_type: str, chunk: Any) -> bool:
    if event_type == "error":
        return True
    # Servers without a way to leave a field out send it empty.
    return isinstance(chunk, dict) and bool(
        cast("dict[str, Any]", chunk).get("error") or cast("dict[str, Any]", chunk).get("object") == "error"
    )


def _says_nothing(event_type: str, chunk: Any) -> bool:
    """Whether an event only keeps the connection open, or is empty."""
    if chunk is None:
        return True
    if not isinstance(chunk, dict):
        return False
    fields = cast("dict[str, Any]", chunk)
    if fields.get("choices"):
        return False
    filled = {name for name, value in fields.items() if value not in (None, "", [], {})}
    named = event_type != "message" or fields.get("type") in HEARTBEATS
    return not filled - {"error"} or (named and "choices" not in fields and "usage" not in fields)


def _error(event_type: str, chunk: Any) -> BadStreamError | ServerError:
    if not isinstance(chunk, dict):
        return (
            ServerError(str(chunk)[:500])
            if event_type == "error"
            else BadStreamError(f"an event that is not an object: {str(chunk)[:80]}")
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
    # A token that cannot come has a log-probability of minus infinity, and no gap can be told from it.
    return [
        round(pair[0] - pair[1], 6) if len(pair) == 2 and all(map(math.isfinite, pair)) else None
        for pair in best
    ]
