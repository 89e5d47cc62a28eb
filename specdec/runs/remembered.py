"""What a record yields, worked out once: a report asks the same of many records, many times."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

from specdec.runs.record import RequestRecord

_Value = TypeVar("_Value")


class _Place(weakref.ref[RequestRecord]):
    """A weak reference that knows where its record's value is kept."""

    __slots__ = ("key",)

    key: int


def remembered(function: Callable[[RequestRecord], _Value]) -> Callable[[RequestRecord], _Value]:
    """The same function, with each value kept as long as its record lives.

    By identity, since a record never changes, and hashing its thousands of times would take as long as most
    values do.
    """
    values: dict[int, tuple[_Value, _Place]] = {}

    def forget(place: weakref.ref[RequestRecord]) -> None:
        values.pop(cast("_Place", place).key, None)

    @wraps(function)
    def value(record: RequestRecord) -> _Value:
        key = id(record)
        known = values.get(key)
        if known is None:
            place = _Place(record, forget)
            place.key = key
            known = values[key] = (function(record), place)
        return known[0]

    return value
