"""What a record yields is worked out once, and forgotten with the record."""

from __future__ import annotations

import gc
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


def test_nothing_is_kept_of_records_that_are_gone() -> None:
    @remembered
    def text(one: RequestRecord) -> str:
        return one.prompt

    # Many come and go, at addresses that are used again.
    for number in range(2000):
        assert text(record("fast", f"p{number}", times=(0.1,), counts=(1,))) == f"p{number}"
    gc.collect()
    (kept,) = (cell.cell_contents for cell in text.__closure__ or () if isinstance(cell.cell_contents, dict))
    assert kept == {}
