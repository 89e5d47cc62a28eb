"""What a record yields, worked out once: a report asks the same of many records, many times."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from specdec.runs.record import RequestRecord

_Value = TypeVar("_Value")


class _Place(weakref.ref[RequestRecord]):
    """A weak reference to a record, with what it yielded and where that is kept.

    One reference for all functions: each takes as much memory as a short record.

    Attributes:
        key: identity of the record.
        values: what each function made of it, a function and its value in turn.
    """

    __slots__ = ("key", "values")

    key: int
    values: tuple[Any, ...]


_places: dict[int, _Place] = {}


def _forget(place: weakref.ref[RequestRecord]) -> None:
    _places.pop(cast("_Place", place).key, None)


def _place_of(record: RequestRecord) -> _Place:
    key = id(record)
    place = _places.get(key)
    if place is None:
        place = _places[key] = _Place(record, _forget)
        place.key, place.values = key, ()
    return place


def remembered(function: Callable[[RequestRecord], _Value]) -> Callable[[RequestRecord], _Value]:
    """The same function, with each value kept as long as its record lives.

    By identity, since a record never changes, and hashing its thousands of times would take as long as most
    values do.
    """

    @wraps(function)
    def value(record: RequestRecord) -> _Value:
        place = _places.get(id(record)) or _place_of(record)
        values = place.values
        for at in range(0, len(values), 2):
            if values[at] is function:
                return values[at + 1]
        made = function(record)
        # A function may ask for others that are remembered too.
        place.values = (*place.values, function, made)
        return made

    return value
