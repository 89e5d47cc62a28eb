"""Dataclasses to JSON and back, with every field of the type it is declared with, or refused by name."""

from __future__ import annotations

import functools
import json
import reprlib
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter, ValidationError

_Kept = TypeVar("_Kept", bound="DataclassInstance")

CONFIG = {"strict": True, "extra": "forbid"}
"""``__pydantic_config__`` of every dataclass that is read here, and of those inside it."""


class OtherSchemaError(ValueError):
    """Written by another version of this project, in a layout of its own."""


def read(kind: type[_Kept], text: str, what: str, schema: int) -> _Kept:
    """Reads JSON of one schema back.

    Args:
        kind: dataclass with a field ``schema`` and ``CONFIG`` as its ``__pydantic_config__``.
        text: JSON.
        what: what it is called in messages.
        schema: the only number of ``schema`` that is read.

    Raises:
        OtherSchemaError: another schema.
        ValueError: not JSON, or a field missing, unknown or of another type: the first of them by name.
    """
    from pydantic import ValidationError

    try:
        value: _Kept = _adapter(kind).validate_json(text)
    except ValidationError as error:
        _require_schema(_schema_of(text), schema, what)
        raise ValueError(_first(error)) from None
    _require_schema(getattr(value, "schema", None), schema, what)
    return value


def _require_schema(found: object, schema: int, what: str) -> None:
    if isinstance(found, int) and found != schema:
        raise OtherSchemaError(f"is a {what} of schema {found}, and this version reads schema {schema}")


def _schema_of(text: str) -> object:
    try:
        raw: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", raw).get("schema") if isinstance(raw, dict) else None


@functools.cache
def _adapter(kind: type[DataclassInstance]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _first(error: ValidationError) -> str:
    item = error.errors(include_url=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"]).lstrip(".")
    problem = item["msg"][0].lower() + item["msg"][1:]
    match item["type"]:
        case "json_invalid":
            return f"is {problem}"
        case "missing":
            return f"{place} is missing"
        case "unexpected_keyword_argument":
            return f"{place} is not known"
        case _ if not place:
            return problem
        case _:
            return f"{place} = {reprlib.repr(item['input'])}: {problem}"
