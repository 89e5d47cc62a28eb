"""The fields of a request, and those that a strict server does not know."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from specdec.benchmark.plan import Job, Plan, Target

DROPPABLE = (
    "stream_options.continuous_usage_stats",
    "ignore_eos",
    "chat_template_kwargs",
    "timings_per_token",
    "seed",
    "stream_options",
)
"""Fields that a run can do without, in the order they are given up where a server does not say which it
refuses; a dot stands before a field inside another."""

RENAMED = {"max_tokens": "max_completion_tokens"}
"""Fields that are sent by another name where a server refuses them."""

OWN = ("stream", "messages", "prompt")
"""Fields that a user cannot set: without them there is nothing to measure."""

_UNKNOWN = re.compile(
    r"extra|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|not supported|unsupported"
    r"|additional propert|invalid (field|parameter|argument)",
    re.IGNORECASE,
)


class Fields:
    """What the servers of a run refuse: left out for every variant alike, so that all do the same work.

    Attributes:
        dropped: names of the fields, in the order they were refused.
    """

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def fit(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body without what was refused."""
        fitted = {name: value for name, value in body.items() if name not in self.dropped}
        for name in self.dropped:
            outer, _, inner = name.partition(".")
            if inner and isinstance(fitted.get(outer), dict):
                nested = cast("dict[str, Any]", fitted[outer])
                fitted[outer] = {key: value for key, value in nested.items() if key != inner}
            if name in RENAMED and name in body:
                fitted[RENAMED[name]] = body[name]
        return fitted

    def learn(self, refusal: str, body: dict[str, Any]) -> bool:
        """Takes the words of a refusal; whether there is a field less to send now.

        Args:
            refusal: the server's words.
            body: that was refused.
        """
        if not _UNKNOWN.search(refusal):
            return False
        sent = [name for name in (*DROPPABLE, *RENAMED) if _holds(body, name)]
        named = [name for name in sent if re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", refusal)]
        # The outer field is named with the inner one.
        if any(name.partition(".")[0] == "stream_options" and "." in name for name in named):
            named = [name for name in named if name != "stream_options"]
        unnamed = [name for name in sent if name not in RENAMED] if not named else []
        chosen = named or unnamed[:1]
        self.dropped += [name for name in chosen if name not in self.dropped]
        return bool(chosen)


def _holds(body: dict[str, Any], name: str) -> bool:
    outer, _, inner = name.partition(".")
    value = body.get(outer)
    return outer in body if not inner else isinstance(value, dict) and inner in value


def request_body(target: Target, job: Job, plan: Plan) -> dict[str, Any]:
    """The JSON that is sent for one job."""
    prompt = job.prompt
    body: dict[str, Any] = {
        "model": target.model,
        "max_tokens": job.output_tokens,
        "temperature": job.temperature,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    if plan.api == "chat":
        body["messages"] = [{"role": turn.role, "content": turn.content} for turn in prompt.conversation]
        if plan.thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": plan.thinking}
    else:
        body["prompt"] = "\n".join(turn.content for turn in prompt.conversation)
    if plan.ignore_eos:
        body["ignore_eos"] = True
    if job.temperature > 0:
        body["seed"] = plan.seed + job.repeat
    if plan.near_ties:
        body |= {"logprobs": True, "top_logprobs": 2} if plan.api == "chat" else {"logprobs": 2}
    if target.engine == "llamacpp":
        # Its only exact count per event; other servers need not know the field.
        body["timings_per_token"] = True
    return body | plan.extra_body
