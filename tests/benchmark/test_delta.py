"""Text in the fields that servers and proxies put it in."""

from __future__ import annotations

from typing import Any

import pytest

from specdec.benchmark.delta import read


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": ["a", "b"]}, "ab"),
        ({"content": {"type": "text", "text": "a"}}, "a"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}, "hm"),
        ({"refusal": "I will not"}, "I will not"),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}, "hm"),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]}, "hm"),
        ({"thinking": "hm", "content": "so"}, "hmso"),
        ({"thinking_blocks": [{"type": "thinking", "thinking": "hm"}]}, "hm"),
        ({"function_call": {"name": "add", "arguments": "{"}}, "add{"),
        ({"function_call": {"arguments": "1}"}}, "1}"),
        ({"tool_calls": [{"custom": {"name": "run", "input": "ls"}}]}, "runls"),
        # A proxy that translates says the same in two fields.
        ({"reasoning": "hm", "reasoning_details": [{"text": "hm"}], "reasoning_content": None}, "hm"),
        ({"reasoning_content": "hm", "thinking_blocks": [{"thinking": "hm"}]}, "hm"),
    ],
    ids=str,
)
def test_every_field_is_read_once(delta: dict[str, Any], text: str) -> None:
    found = read({"delta": delta})
    assert (found.text, found.unread) == (text, ())


@pytest.mark.parametrize(
    ("delta", "name"),
    [
        ({"audio": {"data": "AAAA"}}, "audio"),
        ({"vendor_text": "abc"}, "vendor_text"),
        ({"content": [{"type": "image_url", "image_url": "data:"}]}, "content"),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "Zm9v"}]}, "reasoning_details"),
    ],
    ids=str,
)
def test_a_field_that_holds_something_else_is_named(delta: dict[str, Any], name: str) -> None:
    assert read({"delta": delta}).unread == (name,)


@pytest.mark.parametrize(
    "delta", [{"role": "assistant", "content": None}, {"content": [], "seq": 3, "x": None}, {}]
)
def test_what_holds_nothing_is_not_named(delta: dict[str, Any]) -> None:
    assert read({"delta": delta}) == ("", False, ())
