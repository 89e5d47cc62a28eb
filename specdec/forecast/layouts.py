"""Reads logged answers in common layouts. A layout is recognized by its keys; entries of other layouts are
counted and left out.

| layout | told by |
| --- | --- |
| ours | ``answer`` beside ``prompt`` or ``messages`` |
| OpenAI request and response | ``request`` with ``messages`` or ``prompt``, ``response`` with ``choices`` |
| LiteLLM | ``messages`` beside ``response`` with ``choices`` |
| Langfuse | ``input`` beside ``output`` |
| ShareGPT | ``conversations`` of ``from`` and ``value`` |
| messages | ``messages`` that end with the assistant's |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from specdec.errors import BadInputError, Mistake
from specdec.forecast.answers import SAMPLED, Answer, Sources

Entry = dict[str, Any]


class _LeftOutError(Exception):
    """An entry cannot be used; the message is the reason, for the count."""


def read_file(path: Path, sources: Sources) -> None:
    """Reads a file of JSON lines, a JSON array, or an object with such an array under ``data``.

    Args:
        path: of the file.
        sources: gets answers and counts.

    Raises:
        BadInputError: it cannot be read, is not JSON, or not one entry has a known layout.
    """
    known = sources.layouts.total()
    for number, entry in enumerate(_entries(path), 1):
        _add(entry, f"{path.stem}-{number}", sources)
    if sources.layouts.total() == known:
        raise BadInputError(
            "SOURCE",
            [
                Mistake(
                    str(path),
                    None,
                    "holds no entry of a known layout",
                    "Write one object a line with prompt and answer; docs/forecast.md lists the layouts",
                )
            ],
        )


def _entries(path: Path) -> Iterator[Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(path, f"cannot be read: {error}", "Name a text file of logged answers") from None
    try:
        document: Any = json.loads(text)
    except ValueError:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise _wrong(path, f"line {number} is not JSON: {error}", "Correct the line") from None
        return
    if isinstance(document, dict) and isinstance(cast("Entry", document).get("data"), list):
        document = cast("Entry", document)["data"]
    yield from cast("list[Any]", document) if isinstance(document, list) else [document]


def _wrong(path: Path, problem: str, remedy: str) -> BadInputError:
    return BadInputError("SOURCE", [Mistake(str(path), None, problem, remedy)])


def _add(entry: Any, name: str, sources: Sources) -> None:
    if not isinstance(entry, dict):
        sources.left_out["not an object"] += 1
        return
    raw = cast("Entry", entry)
    layout = next((layout for layout, (fits, _) in _LAYOUTS.items() if fits(raw)), None)
    if layout is None:
        sources.left_out["unknown layout"] += 1
        return
    sources.layouts[layout] += 1
    try:
        answers = list(_LAYOUTS[layout][1](raw, name))
    except _LeftOutError as reason:
        sources.left_out[str(reason)] += 1
        return
    for answer in answers:
        if not answer.text:
            sources.left_out["empty answer"] += 1
            continue
        if answer.finish == "length":
            sources.notes["cut by length: what would have followed is not in it"] += 1
        if answer.temperature:
            sources.notes[SAMPLED] += 1
        sources.answers.append(answer)


def _ours(raw: Entry, name: str) -> Iterator[Answer]:
    messages = _messages(raw["messages"]) if "messages" in raw else ()
    if not messages:
        system, prompt = raw.get("system"), _text(raw.get("prompt"))
        messages = ((("system", _text(system)),) if system else ()) + (("user", prompt),)
    yield Answer(
        id=str(raw.get("id", name)),
        group=str(raw.get("test_case") or raw.get("class") or "answers"),
        messages=messages,
        text=_text(raw["answer"]),
        prompt_tokens=_count(raw, "prompt_tokens"),
        completion_tokens=_count(raw, "completion_tokens", "output_tokens"),
        finish=raw.get("finish_reason"),
        temperature=raw.get("temperature"),
        top_p=raw.get("top_p"),
        logprobs=_logprobs(raw.get("logprobs")),
    )


def _openai(raw: Entry, name: str) -> Iterator[Answer]:
    yield _exchange(_object(raw["request"]), _object(raw["response"]), str(raw.get("id", name)))


def _litellm(raw: Entry, name: str) -> Iterator[Answer]:
    settings = raw.get("model_parameters") or raw.get("optional_params")
    request: Entry = {**_object(settings or {}), "messages": raw["messages"]}
    answer = _exchange(request, _object(raw["response"]), str(raw.get("id") or raw.get("request_id") or name))
    yield replace(
        answer,
        group=str(raw.get("model_group") or "answers"),
        prompt_tokens=answer.prompt_tokens or _count(raw, "prompt_tokens"),
        completion_tokens=answer.completion_tokens or _count(raw, "completion_tokens"),
    )


def _exchange(request: Entry, response: Entry, name: str) -> Answer:
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices:
        raise _LeftOutError("no choice in the response")
    if len(cast("list[Any]", choices)) > 1:
        raise _LeftOutError("several choices")
    if request.get("tools") or request.get("functions"):
        raise _LeftOutError("tools in the request")
    choice = _object(choices[0])
    message = _object(choice.get("message") or {"content": choice.get("text")})
    if message.get("tool_calls") or message.get("function_call"):
        raise _LeftOutError("tool calls in the answer")
    if message.get("reasoning_content") or message.get("reasoning"):
        raise _LeftOutError("reasoning apart from the answer: how the template joined them is not logged")
    usage = _object(response.get("usage") or {})
    pieces, logprobs = _token_by_token(choice)
    text = _text(message.get("content") or "")
    # The protocol's log-probabilities are those before temperature and top-p.
    drawn_plainly = (
        request.get("temperature") == 1 and request.get("top_p", 1) == 1 and "top_k" not in request
    )
    return Answer(
        id=name,
        group="answers",
        messages=_messages(request["messages"]) if "messages" in request else (),
        prompt=_text(request.get("prompt") or "") if "messages" not in request else "",
        text=text,
        pieces=pieces if "".join(pieces) == text else (),
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        finish=choice.get("finish_reason"),
        temperature=request.get("temperature"),
        top_p=request.get("top_p"),
        logprobs=logprobs if drawn_plainly else (),
    )


def _token_by_token(choice: Entry) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Text and log-probability of each token of a choice; empty where they are not logged."""
    content = _object(choice.get("logprobs") or {}).get("content")
    if not isinstance(content, list):
        return (), ()
    tokens = [_object(item) for item in cast("list[Any]", content)]
    if not all(isinstance(token.get("token"), str) for token in tokens):
        return (), ()
    return tuple(token["token"] for token in tokens), _logprobs([token.get("logprob") for token in tokens])


def _logprobs(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list):
        return ()
    numbers = cast("list[Any]", values)
    known = all(isinstance(value, (int, float)) and value <= 0 for value in numbers)
    return tuple(float(value) for value in numbers) if known else ()


def _langfuse(raw: Entry, name: str) -> Iterator[Answer]:
    asked, written = _decoded(raw["input"]), _decoded(raw["output"])
    if isinstance(asked, dict):
        request = cast("Entry", asked)
        if request.get("tools"):
            raise _LeftOutError("tools in the request")
        asked = request.get("messages", request)
    messages = (("user", asked),) if isinstance(asked, str) else _messages(asked)
    if isinstance(written, dict):
        message = cast("Entry", written)
        if "choices" in message:
            raise _LeftOutError("several choices")
        if message.get("tool_calls"):
            raise _LeftOutError("tool calls in the answer")
        written = message.get("content")
    usage = _object(raw.get("usageDetails") or raw.get("usage") or {})
    settings = _object(_decoded(raw.get("modelParameters")) or {})
    temperature = settings.get("temperature")
    yield Answer(
        id=str(raw.get("id", name)),
        group=str(raw.get("name") or "answers"),
        messages=messages,
        text=_text(written or ""),
        prompt_tokens=_count(usage, "input", "promptTokens") or _count(raw, "promptTokens", "inputUsage"),
        completion_tokens=_count(usage, "output", "completionTokens")
        or _count(raw, "completionTokens", "outputUsage"),
        temperature=float(temperature) if temperature is not None else None,
    )


_SPEAKERS = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
}


def _sharegpt(raw: Entry, name: str) -> Iterator[Answer]:
    turns: list[tuple[str, str]] = []
    for turn in cast("list[Any]", raw["conversations"]):
        speaker = _SPEAKERS.get(str(_object(turn).get("from")))
        if speaker is None:
            raise _LeftOutError(f"a turn of {_object(turn).get('from')!r}")
        text = _text(_object(turn).get("value"))
        if speaker == "assistant" and turns:
            yield Answer(
                id=f"{raw.get('id', name)}-{len(turns)}", group="answers", messages=tuple(turns), text=text
            )
        turns.append((speaker, text))


def _dialogue(raw: Entry, name: str) -> Iterator[Answer]:
    *messages, (_, text) = _messages(raw["messages"])
    if raw.get("tools"):
        raise _LeftOutError("tools in the request")
    yield Answer(id=str(raw.get("id", name)), group="answers", messages=tuple(messages), text=text)


def _has(*names: str) -> Callable[[Entry], bool]:
    return lambda raw: all(raw.get(name) is not None for name in names)


def _exchanged(raw: Entry) -> bool:
    response = _decoded(raw.get("response"))
    return isinstance(response, dict) and "choices" in response


_LAYOUTS: dict[str, tuple[Callable[[Entry], bool], Callable[[Entry, str], Iterator[Answer]]]] = {
    "ours": (lambda raw: "answer" in raw and bool(raw.keys() & {"prompt", "messages"}), _ours),
    "OpenAI": (lambda raw: _has("request")(raw) and _exchanged(raw), _openai),
    "LiteLLM": (lambda raw: _has("messages")(raw) and _exchanged(raw), _litellm),
    "Langfuse": (_has("input", "output"), _langfuse),
    "ShareGPT": (lambda raw: isinstance(raw.get("conversations"), list), _sharegpt),
    "messages": (
        lambda raw: (
            isinstance(raw.get("messages"), list)
            and len(raw["messages"]) > 1
            and _object(raw["messages"][-1]).get("role") == "assistant"
        ),
        _dialogue,
    ),
}


def _decoded(value: Any) -> Any:
    """A field that an export wrote as a string of JSON, as what it holds."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _object(value: Any) -> Entry:
    part = _decoded(value)
    if not isinstance(part, dict):
        raise _LeftOutError("a part that is not an object")
    return cast("Entry", part)


def _messages(value: Any) -> tuple[tuple[str, str], ...]:
    messages = _decoded(value)
    if not isinstance(messages, list):
        raise _LeftOutError("messages that are not a list")
    turns: list[tuple[str, str]] = []
    for item in cast("list[Any]", messages):
        message = _object(item)
        role = str(message.get("role"))
        if role not in ("system", "user", "assistant", "developer") or message.get("tool_calls"):
            raise _LeftOutError("tools in the request")
        turns.append((role, _text(message.get("content"))))
    return tuple(turns)


def _text(value: Any) -> str:
    """Text, or the text parts of a message joined."""
    if isinstance(value, list):
        parts = [_object(part) for part in cast("list[Any]", value)]
        if any(part.get("type") != "text" for part in parts):
            raise _LeftOutError("a part that is not text")
        return "".join(_text(part.get("text")) for part in parts)
    if not isinstance(value, str):
        raise _LeftOutError("a text that is missing")
    return value


def _count(raw: Entry, *names: str) -> int | None:
    return next((int(raw[name]) for name in names if isinstance(raw.get(name), int) and raw[name] > 0), None)
