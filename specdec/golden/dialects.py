"""How services that are all called OpenAI-compatible differ, as settings of the golden server.

Each entry imitates what a client sees of one of them: which counts it sends, how it cuts events, what else is
in them, which request fields it refuses. The engines themselves do not run.
"""

from __future__ import annotations

from specdec.golden.settings import Dialect, Settings
from specdec.golden.truth import Uniform

_NULLS = {"refusal": None, "function_call": None, "tool_calls": None}
_STRICT = ("stream_options.continuous_usage_stats", "ignore_eos", "chat_template_kwargs")
_FILTERS = (
    '{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]}'
)

DIALECTS: dict[str, tuple[str, Settings]] = {
    "vllm": ("an event per step, usage on each", Settings(engine="vllm")),
    "vllm-old": (
        "an event per step, usage at the end only",
        Settings(engine="vllm", usage="final", counters="none"),
    ),
    "sglang": (
        "an event per step with empty fields spelled out, usage at the end only",
        Settings(
            engine="sglang",
            usage="final",
            counters="none",
            dialect=Dialect(delta={"reasoning_content": None, "tool_calls": None}, every={"usage": None}),
        ),
    ),
    "llama.cpp": (
        "an event per token, timings on each",
        Settings(engine="llamacpp", usage="timings", chunking="token", counters="none"),
    ),
    "tgi": (
        "an event per token, those of a step together, usage at the end only",
        Settings(engine="tgi", usage="final", chunking="token", counters="none"),
    ),
    "ollama": (
        "an event per token, usage on the event with the finish reason",
        Settings(
            engine="library",
            usage="final",
            chunking="token",
            counters="none",
            role_event=False,
            dialect=Dialect(delta={"role": "assistant"}, usage_on_finish=True),
        ),
    ),
    "litellm": (
        "a proxy: empty errors and fields on each event, usage at the end only",
        Settings(
            engine="openai",
            usage="final",
            counters="none",
            dialect=Dialect(delta={"provider_specific_fields": None, **_NULLS}, every={"error": None}),
        ),
    ),
    "azure": (
        "an event without choices first, unknown request fields refused with status 400",
        Settings(
            engine="azure",
            usage="final",
            chunking="token",
            counters="none",
            dialect=Dialect(
                opening=(_FILTERS,), delta={"refusal": None}, every={"usage": None}, refused=_STRICT
            ),
        ),
    ),
    "openrouter": (
        "comments while it waits, reasoning in two fields, usage on the event with the finish reason",
        Settings(
            engine="openrouter",
            usage="final",
            chunking="token",
            counters="none",
            comments=True,
            reasoning=0.25,
            reasoning_field="reasoning",
            dialect=Dialect(mirrored=True, usage_on_finish=True),
        ),
    ),
    "tensorrt-llm": (
        "an event per step, usage on each that tells its own tokens only, and all at the end",
        Settings(engine="tensorrt_llm", usage="own", counters="none"),
    ),
    "strict": (
        "unknown request fields refused in the stream, max_tokens by another name",
        Settings(
            engine="openai",
            usage="final",
            chunking="token",
            counters="none",
            dialect=Dialect(refused=(*_STRICT, "max_tokens"), refused_in="stream"),
        ),
    ),
    "buffered": (
        "vLLM behind a proxy that hands on 4 KiB at a time",
        Settings(engine="vllm", dialect=Dialect(buffer=4096)),
    ),
    "whole": (
        "vLLM behind a proxy that hands on the whole answer",
        Settings(dialect=Dialect(buffer=1 << 30)),
    ),
    "batched": (
        "an event for four steps, usage on each",
        Settings(engine="vllm", chunking="merged", merge=4, per_step=Uniform(1, 1)),
    ),
}
"""By name: what it is, and the settings."""
