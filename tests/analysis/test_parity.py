"""When texts count as the same, and what a difference is put down to."""

from __future__ import annotations

from typing import Any

from specdec.analysis.pairing import pairs
from specdec.analysis.parity import parity
from specdec.analysis.verdict import Parity
from tests.analysis.simulate import record


def texts(base: list[str], other: list[str], *, repeats: bool = False, **more: Any) -> Parity:
    def made(variant: str, values: list[str]) -> list[Any]:
        return [
            record(
                variant,
                "p" if repeats else f"p{i}",
                repeat=i if repeats else 0,
                times=[1, 2],
                counts=[1, 2],
                text=text,
                **more.get(variant, {}),
            )
            for i, text in enumerate(values)
        ]

    ours, theirs = made("baseline", base), made("fast", other)
    return parity(pairs(ours, theirs), ours)


def test_equal() -> None:
    found = texts(["a", "b"], ["a", "b"])
    assert (found.state, found.equal, found.total, found.differences) == ("same", 2, 2, ())


def test_the_first_difference_is_shown_with_both_continuations() -> None:
    found = texts(["the cat sat", "b"], ["the cow", "b"])
    (difference,) = found.differences
    assert (difference.position, difference.baseline, difference.variant) == (5, "at sat", "ow")
    assert found.state == "differs"
    assert difference.near_tie is None


def test_a_text_that_only_ends_sooner_differs_where_it_ends() -> None:
    assert texts(["abc"], ["ab"]).differences[0].position == 2


def test_a_baseline_that_differs_from_itself_differs_no_more() -> None:
    found = texts(["a", "b", "a"], ["a", "a", "a"], repeats=True)
    assert (found.self_equal, found.self_total) == (1, 2)
    assert found.state == "swaps"


def test_a_steady_baseline_is_no_excuse() -> None:
    found = texts(["a", "a", "a"], ["a", "b", "a"], repeats=True)
    assert (found.self_equal, found.self_total, found.state) == (2, 2, "differs")


def test_a_near_tie_is_found_where_the_outputs_part() -> None:
    # Both see the same context up to token 2, where the two best are 0.01 apart; after it contexts differ.
    found = texts(
        ["xa"],
        ["xb"],
        baseline={"near_tie": (2.0, 1.5, 0.01, 3.0)},
        fast={"near_tie": (2.01, 1.49, 0.012, 0.9)},
    )
    assert found.differences[0].near_tie is True
    assert found.state == "swaps"


def test_a_clear_choice_is_no_near_tie() -> None:
    found = texts(
        ["xa"], ["xb"], baseline={"near_tie": (2.0, 1.5, 3.0)}, fast={"near_tie": (2.01, 1.49, 0.9)}
    )
    assert found.differences[0].near_tie is False
    assert found.state == "differs"


def test_sampling_is_not_judged() -> None:
    hot = {"temperature": 0.7}
    found = texts(["a"], ["b"], baseline=hot, fast=hot)
    assert (found.state, found.total) == ("not judged", 0)
