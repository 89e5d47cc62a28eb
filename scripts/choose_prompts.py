"""Chooses the prompts of the rehearsal: those that the small model answers in the form their test case is
named after.

    uv run python scripts/choose_prompts.py scripts/rehearsal_candidates.jsonl
    specdec/prompts/shipped/rehearsal.jsonl

Only a server without speculation is asked, and only its text is looked at: no speed, no acceptance. Of the
candidates that pass, the first of each test case in the file's order are kept. The rules are below.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from specdec.console import say
from specdec.experiment.reading import load as load_experiment
from specdec.folders import cache_folder
from specdec.prompts.sets import Prompt, load
from specdec.rehearsal.engines.llamacpp import LlamaCpp
from specdec.rehearsal.sweep import sweep
from specdec.runs.record import measured, read_records

KEPT = {"repetition": 6, "json": 8, "code": 4, "story": 4, "explanation": 4}
_PHRASE_WORDS = 8
_CODE = re.compile(
    r"\s*(def |class |return |self\.|import |const |let |<\w+|</\w+|INSERT |VALUES|\(\s*[\d'\"]|mkdir"
    r" |\.[\w-]+ \{|color:|\})"
)


def goes_on(prompt: str, answer: str) -> bool:
    """Whether the answer repeats the last line of the prompt at least three times."""
    return answer.count(prompt.splitlines()[-1].strip()) >= 3


def holds_objects(prompt: str, answer: str) -> bool:
    """Whether the answer holds at least two whole JSON objects with the keys of the prompt's last one."""

    def keys(text: str) -> list[tuple[str, ...]]:
        key_tuples: list[tuple[str, ...]] = []
        for piece in re.findall(r"\{[^{}]*\}", text):
            try:
                key_tuples.append(tuple(json.loads(piece)))
            except ValueError:
                continue
        return key_tuples

    return keys(answer).count(keys(prompt)[-1]) >= 2


def is_code(_: str, answer: str) -> bool:
    """Whether at least three lines of the answer begin as code does."""
    return sum(bool(_CODE.match(line)) for line in answer.splitlines()) >= 3


def is_prose(_: str, answer: str) -> bool:
    """Whether no eight words in a row occur twice in the answer: a model that is caught in a loop writes no
    prose.
    """
    words = answer.lower().split()
    phrases = Counter(
        tuple(words[start : start + _PHRASE_WORDS]) for start in range(len(words) - _PHRASE_WORDS + 1)
    )
    return bool(phrases) and max(phrases.values()) == 1


RULES: dict[str, Callable[[str, str], bool]] = {
    "repetition": goes_on,
    "json": holds_objects,
    "code": is_code,
    "story": is_prose,
    "explanation": is_prose,
}


def choose(candidates: tuple[Prompt, ...], answers: dict[str, str]) -> list[Prompt]:
    """The first candidates of each test case whose answers, by prompt id, keep its rule; as many as ``KEPT``
    says.
    """
    chosen: list[Prompt] = []
    for case, wanted in KEPT.items():
        passing = [p for p in candidates if p.test_case == case and RULES[case](p.text, answers[p.id])]
        say(
            f"{case}: {len(passing)} of {sum(p.test_case == case for p in candidates)} keep the rule,"
            f" {wanted} wanted"
        )
        chosen.extend(passing[:wanted])
    return chosen


def main() -> None:
    """Asks the server and writes the set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("candidates", type=Path)
    parser.add_argument("written", type=Path)
    arguments = parser.parse_args()
    experiment = load_experiment(Path("experiment.toml"))
    benchmark = experiment.benchmark.model_copy(update={"prompts": str(arguments.candidates.resolve())})
    with tempfile.TemporaryDirectory() as scratch:
        manifest = sweep(
            experiment.model_copy(update={"benchmark": benchmark}),
            (),
            LlamaCpp(cache=cache_folder(os.environ) / "weights"),
            Path(scratch),
            on_event=lambda event: say(f"  {event.done}/{event.total} {event.message}"),
        )
        if manifest.status != "complete":
            raise SystemExit(f"the server was not asked all candidates: {manifest.problem}")
        answers = {
            record.prompt: record.text
            for record in measured(read_records(Path(scratch) / manifest.run / "records.jsonl"))
        }
    chosen = {prompt.id for prompt in choose(load(str(arguments.candidates.resolve())), answers)}
    lines = arguments.candidates.read_text(encoding="utf-8").splitlines(keepends=True)
    arguments.written.write_text(
        "".join(line for line in lines if json.loads(line)["id"] in chosen), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
