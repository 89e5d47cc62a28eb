"""The rules by which the rehearsal's prompts were chosen, on answers whose form a reader can see."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from scripts import choose_prompts
from specdec.prompts.sets import load
from specdec.rehearsal.emulator import CHECKOUT

LINE = "The bell rings at noon."
OBJECT = '{"id": 1, "paid": true}'


@pytest.mark.parametrize(
    ("case", "prompt", "answer", "kept"),
    [
        ("repetition", f"Again:\n{LINE}", "\n".join([LINE] * 3), True),
        ("repetition", f"Again:\n{LINE}", f"{LINE}\n{LINE}\nThe bell", False),
        ("json", f"Go on:\n{OBJECT}", '{"id": 4, "paid": false}\n{"id": 5, "paid": true}\n{"id": 6', True),
        ("json", f"Go on:\n{OBJECT}", '{"id": 4, "paid": false}\n{"id": 5, "pa', False),
        ("json", f"Go on:\n{OBJECT}", '{"id": 4}\n{"id": 5}', False),
        ("json", f"Go on:\n{OBJECT}", "{id: 4, paid: no}\n{id: 5, paid: no}", False),
        ("code", "", "Here it is:\ndef area(side):\n    return side ** 2\n\ndef half(x):", True),
        ("code", "", "Here is how to write code.\nFirst, think.\nreturn later", False),
        (
            "story",
            "",
            "The keeper climbed the stairs and lit the lamp before the storm came in from the west.",
            True,
        ),
        ("story", "", "He went down to the sea and he slept. " * 2, False),
        ("explanation", "", "Too short.", False),
    ],
)
def test_a_rule(case: str, prompt: str, answer: str, *, kept: bool) -> None:
    assert choose_prompts.RULES[case](prompt, answer) is kept


def test_the_first_that_keep_the_rule_are_chosen() -> None:
    candidates = load(str(CHECKOUT / "scripts" / "rehearsal_candidates.jsonl"))
    answers = {p.id: "\n".join([p.text.splitlines()[-1]] * 3) for p in candidates}
    answers["repetition-2"] = "no"
    chosen = [p.id for p in choose_prompts.choose(candidates, answers) if p.test_case == "repetition"]
    assert chosen == [f"repetition-{number}" for number in (1, 3, 4, 5, 6, 7)]


def test_the_shipped_set_is_made_of_candidates() -> None:
    lines = (CHECKOUT / "scripts" / "rehearsal_candidates.jsonl").read_text(encoding="utf-8").splitlines()
    shipped = (
        (CHECKOUT / "specdec" / "prompts" / "shipped" / "rehearsal.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    assert [line for line in lines if line in shipped] == shipped
    assert Counter(json.loads(line)["test_case"] for line in shipped) == choose_prompts.KEPT
