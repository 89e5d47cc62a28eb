"""The golden server's tokenizer: a token for each word, so that a forecast can be tried without a model."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

from specdec.golden.asking import BadRequestError

_PIECES = re.compile(r"<\|\w+\|>|\s*\w+|\s*[^\w\s]|\s+")
_TURN, _END = "<|{}|>", "<|end|>"


def reply(fields: dict[str, Any]) -> bytes:
    """The body of vLLM's ``/tokenize`` for a ``prompt``, or for ``messages`` in a template of its own.

    Raises:
        BadRequestError: neither is there, or not as vLLM takes it.
    """
    tokens = [zlib.crc32(piece.encode()) & 0x7FFFFFFF for piece in _PIECES.findall(_text(fields))]
    return json.dumps({"count": len(tokens), "tokens": tokens}).encode()


def _text(fields: dict[str, Any]) -> str:
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return prompt
    try:
        turns = [f"{_TURN.format(turn['role'])}{turn['content']}{_END}" for turn in fields["messages"]]
    except (KeyError, TypeError):
        raise BadRequestError("neither a prompt nor messages with role and content") from None
    return "".join(turns) + (_TURN.format("assistant") if fields.get("add_generation_prompt", True) else "")
