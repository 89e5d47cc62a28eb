"""What the golden server writes: the text of tokens, and events in the layout of vLLM and of llama.cpp."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from specdec.golden.settings import Settings
from specdec.golden.truth import Step

WORDS = (
    "river",
    "stone",
    "lamp",
    "garden",
    "winter",
    "paper",
    "bridge",
    "cloud",
    "engine",
    "letter",
    "market",
    "silver",
)


def token_text(prompt: str, index: int, differs_at: int | None) -> str:
    """Text of one token. A function of prompt and position, so that variants agree unless told to differ."""
    salt = "x" if differs_at is not None and index >= differs_at else ""
    digest = hashlib.blake2b(f"{prompt}|{index}|{salt}".encode(), digest_size=1).digest()[0]
    return f" {WORDS[digest % len(WORDS)]}"


class Writing:
    """The events of one response."""

    def __init__(self, settings: Settings, body: dict[str, Any], *, chat: bool, planned: list[Step]) -> None:
        self._settings = settings
        self._chat = chat
        self._planned = planned
        self._prompt = json.dumps(body.get("messages") or body.get("prompt") or "")
        options: dict[str, Any] = body.get("stream_options") or {}
        self._final = bool(options.get("include_usage")) and settings.usage in (
            "continuous",
            "final",
            "own",
            "repeated",
            "timings",
        )
        self._each = settings.usage if settings.usage in ("own", "repeated") and self._final else None
        self._continuous = bool(options.get("continuous_usage_stats")) and settings.usage == "continuous"
        self._timings = settings.usage == "timings"
        self._per_event_timings = self._timings and bool(body.get("timings_per_token"))
        self._total = sum(step.tokens for step in planned)
        self._reasoning_until = round(self._total * settings.reasoning)
        self._sent = 0
        self._held: list[int] = []
        self._accepted = 0
        kind = "chat.completion.chunk" if chat else "text_completion"
        self._prefix = f'{{"id":"golden","object":"{kind}","created":0,"model":"{settings.model}","choices":'

    def event(self, data: str) -> bytes:
        """One event."""
        end = self._settings.line_end
        comment = f": keep-alive{end}" if self._settings.comments else ""
        return f"{comment}data: {data}{end}{end}".encode()

    def opening(self) -> bytes:
        """What comes before the first token."""
        before = b"".join(map(self.event, self._settings.dialect.opening))
        if not self._chat or not self._settings.role_event:
            return before
        return before + self._chunk({"role": "assistant", "content": ""}, None, 0)

    def step(self, index: int) -> list[bytes]:
        """Bytes to write when a step has ended; empty while its tokens are held back."""
        count = self._planned[index].tokens
        if self._settings.chunking == "merged":
            self._held.append(count)
            # The first step's tokens are never held back: a server that merges does so while it cannot keep
            # up.
            if index and len(self._held) < self._settings.merge and index < len(self._planned) - 1:
                return []
            count = sum(self._held)
            self._held.clear()
        if index:
            self._accepted += count - 1
        per_event = self._settings.chunking in ("token", "packed") or self._per_event_timings
        sizes = [1] * count if per_event else [count]
        data = b"".join(self._tokens(size) for size in sizes)
        return [data]

    def closing(self, reason: str) -> bytes:
        """The event with the finish reason, then the one with usage where the client asked for it."""
        together = self._settings.dialect.usage_on_finish and self._final
        data = self._chunk({}, reason, self._sent, total=together)
        usage = f',"usage":{self._usage(self._sent)}' if self._final and not together else ""
        extra = f',"timings":{self._timing(self._sent)}' if self._timings else ""
        if self._settings.request_metrics and self._settings.per_step.drafted:
            verified = len(self._planned) - 1
            counted = {
                "num_spec_steps": verified,
                "num_draft_tokens": verified * self._settings.per_step.drafted,
                "num_accepted_draft_tokens": self._total - self._planned[0].tokens - verified,
            }
            extra += f',"metrics":{json.dumps({"speculative_decoding": counted})}'
        return data + (self.event(f"{self._prefix}[]{usage}{extra}}}") if usage or extra else b"")

    def done(self) -> bytes:
        """The last event."""
        return self.event("[DONE]")

    def document(self) -> bytes:
        """The answer to a client that does not stream."""
        text = "".join(
            token_text(self._prompt, index, self._settings.differs_at) for index in range(self._total)
        )
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        choice |= {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        return f'{self._prefix}{json.dumps([choice])},"usage":{self._usage(self._total)}}}'.encode()

    def _tokens(self, count: int) -> bytes:
        texts = [
            token_text(self._prompt, index, self._settings.differs_at)
            for index in range(self._sent, self._sent + count)
        ]
        reasoning = max(0, min(count, self._reasoning_until - self._sent))
        self._sent += count
        delta: dict[str, Any] = {}
        if reasoning:
            delta[self._settings.reasoning_field] = "".join(texts[:reasoning])
            if self._settings.dialect.mirrored:
                delta["reasoning_details"] = [{"type": "reasoning.text", "text": "".join(texts[:reasoning])}]
        if reasoning < count:
            delta["content"] = "".join(texts[reasoning:])
        return self._chunk(self._settings.dialect.delta | delta, None, self._sent, own=count)

    def _chunk(
        self, delta: dict[str, Any], reason: str | None, sent: int, *, own: int = 0, total: bool = False
    ) -> bytes:
        fields: dict[str, Any] = {"delta": delta} if self._chat else {"text": delta.get("content", "")}
        choice = json.dumps([{"index": 0, **fields, "finish_reason": reason}], separators=(",", ":"))
        usage = f',"usage":{self._usage(sent)}' if self._continuous or total else ""
        if self._each and own:
            usage = f',"usage":{self._usage(own if self._each == "own" else self._total)}'
        for name, value in self._settings.dialect.every.items():
            usage += "" if f'"{name}":' in usage else f",{json.dumps(name)}:{json.dumps(value)}"
        timings = (
            f',"timings":{self._timing(sent)}' if self._per_event_timings and sent and reason is None else ""
        )
        return self.event(f"{self._prefix}{choice}{usage}{timings}}}")

    def _usage(self, sent: int) -> str:
        return f'{{"prompt_tokens":16,"total_tokens":{16 + sent},"completion_tokens":{sent}}}'

    def _timing(self, sent: int) -> str:
        drafted = (
            f',"draft_n":{self._accepted + 1},"draft_n_accepted":{self._accepted}'
            if self._settings.per_step.drafted
            else ""
        )
        return f'{{"prompt_n":16,"predicted_n":{sent}{drafted}}}'
