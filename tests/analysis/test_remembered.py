"""What a record yields is worked out once, and forgotten with the record."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

from specdec.runs.record import RequestRecord
from specdec.runs.remembered import remembered
from tests.analysis.simulate import record


def test_once_for_a_record_and_anew_for_another_that_is_equal() -> None:
    asked: list[RequestRecord] = []

    @remembered
    def tokens(one: RequestRecord) -> int | None:
        asked.append(one)
        return one.output_tokens

    first = record("fast", "p", times=(0.1, 0.2), counts=(1, 9))
    assert [tokens(first), tokens(first)] == [9, 9]
    assert len(asked) == 1
    other = replace(first, output_tokens=8)
    assert (tokens(other), tokens(first)) == (8, 9)
    assert len(asked) == 2


class Value:
    """Something that can be watched."""


def test_nothing_is_kept_of_records_that_are_gone() -> None:
    values: list[weakref.ref[Value]] = []

    @remembered
    def made(_: RequestRecord) -> Value:
        value = Value()
        values.append(weakref.ref(value))
        return value

    # Many come and go, at addresses that are used again.
    for number in range(2000):
        made(record("fast", f"p{number}", times=(0.1,), counts=(1,)))
    gc.collect()
    assert len(values) == 2000
    assert not any(value() for value in values)
