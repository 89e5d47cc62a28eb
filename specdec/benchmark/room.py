"""Whether prompts, answers and window fit the context that a server tells, before anything is measured.

A speculative step writes ahead by its window, and the published stack's server ends with an assertion where
that leaves the context: the whole run is then lost, not one request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from specdec.benchmark.http1 import Cut, ProtocolError, Refused
from specdec.errors import BadInputError, Mistake
from specdec.experiment.prompt_fit import most_tokens

if TYPE_CHECKING:
    from specdec.benchmark.client import Client
    from specdec.benchmark.plan import Plan, Target
    from specdec.prompts.sets import Prompt

_TEMPLATES = {"llamacpp": ("/apply-template", "prompt"), "vllm": ("/tokenize", "tokens")}
"""Route and field that show what a conversation becomes, by ``owned_by`` of the served model."""

PROBE = [{"role": "user", "content": "Which template is this?"}]


async def misfits(plan: Plan, clients: Sequence[Client]) -> AsyncIterator[Mistake]:
    """Prompts that do not fit, by the server's own count where it gives one. Prompts that fit by the estimate
    from above are not asked for.
    """
    for client in clients:
        target = client.target
        if target.max_model_len is None:
            continue
        window = target.window or 0
        for prompt in plan.prompts:
            output = prompt.output_tokens or plan.output_tokens
            if most_tokens(prompt) + output + window <= target.max_model_len:
                continue
            counted = await prompt_tokens(plan, client, prompt)
            if counted is not None and counted + output + window > target.max_model_len:
                yield Mistake(
                    f"prompt {prompt.id}",
                    f"{counted} tokens, {output} of output",
                    f"does not fit the max_model_len of {target.max_model_len} that {target.variant} serves"
                    f" with, beside its window of {window}",
                    "Shorten it or its output, or serve with a larger max_model_len",
                )


async def prompt_tokens(plan: Plan, client: Client, prompt: Prompt) -> int | None:
    """Tokens of a prompt with its template as a server counts them: by vLLM's ``/tokenize``, else by the
    usage of an answer of one token. None where it tells neither.
    """
    messages = [{"role": turn.role, "content": turn.content} for turn in prompt.conversation]
    body: dict[str, Any] = {"model": client.target.model}
    if plan.api == "chat":
        body["messages"] = messages
        if plan.thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": plan.thinking}
    else:
        body["prompt"] = "\n".join(message["content"] for message in messages)
    told = await _posted(client, client.endpoint.of_server("/tokenize"), body)
    if isinstance(told.get("count"), int):
        return int(told["count"])
    route = "/chat/completions" if plan.api == "chat" else "/completions"
    answer = await _posted(client, client.endpoint.below_base(route), body | {"max_tokens": 1})
    usage: Any = answer.get("usage")
    count: Any = cast("dict[str, Any]", usage).get("prompt_tokens") if isinstance(usage, dict) else None
    return count if isinstance(count, int) else None


async def template(plan: Plan, client: Client) -> str | None:
    """What a server makes of a conversation: 12 hex digits over the rendered text (llama.cpp) or the token
    ids (vLLM), with the kind before them. None where it tells neither; servers of another kind are not asked.
    """
    route, field = _TEMPLATES.get(client.target.engine or "", ("", ""))
    if not route or plan.api != "chat":
        return None
    body: dict[str, Any] = {"model": client.target.model, "messages": PROBE}
    if plan.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": plan.thinking}
    told = await _posted(client, client.endpoint.of_server(route), body)
    if not told.get(field):
        return None
    return f"{field}:{hashlib.sha256(repr(told[field]).encode(errors='backslashreplace')).hexdigest()[:12]}"


async def _posted(client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer as an object; empty where there is none."""
    try:
        status, content = await client.post(path, json.dumps(body, allow_nan=False).encode())
        parsed: Any = json.loads(content) if status == 200 else {}
    except (Refused, TimeoutError, Cut, ProtocolError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}


async def acquainted(plan: Plan, clients: Sequence[Client]) -> list[Target]:
    """The targets of clients with what they make of a conversation.

    Raises:
        BadInputError: prompts that a server has no room for.
    """
    wrong = [mistake async for mistake in misfits(plan, clients)]
    if wrong:
        raise BadInputError("prompts", wrong)
    return [replace(client.target, template=await template(plan, client)) for client in clients]
