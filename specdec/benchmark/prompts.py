"""Prompt sets: shipped ones and a user's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from specdec.errors import BadInputError, Mistake

SHIPPED = ("classes", "published", "rehearsal")
"""Names of the prompt sets inside the package: test cases by class, the eight published ones, and few short
ones for a small model.
"""

OWN = "own"
"""Test case and class of prompts that name none."""

_TEXT = (str, "a text that is not empty")
_FIELDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "prompt": _TEXT,
    "id": _TEXT,
    "test_case": _TEXT,
    "class": _TEXT,
    "system": _TEXT,
    "output_tokens": (int, "a whole number"),
    "temperature": ((int, float), "a number"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt.

    Attributes:
        id: unique in its set; records and pairs name it.
        test_case: prompts of one test case are meant to behave alike.
        prompt_class: kind of text that is asked for, see ``RequestRecord``.
        text: what the user says.
        system: what the system message says, or None.
        output_tokens: instead of the plan's.
        temperature: instead of the plan's.
    """

    id: str
    test_case: str
    prompt_class: str
    text: str
    system: str | None = None
    output_tokens: int | None = None
    temperature: float | None = None


def load(name: str, *, base: Path | None = None) -> tuple[Prompt, ...]:
    """The prompts of a shipped set or of a file.

    A file that ends in ``.jsonl`` has one JSON object per line: ``prompt``, and optionally ``id``,
    ``test_case``, ``class``, ``system``, ``output_tokens``, ``temperature``. Any other file is text, one
    prompt per line. Empty lines are passed over.

    Args:
        name: a shipped set, or the path of a file.
        base: folder that a relative path starts from; the current one by default.

    Raises:
        BadInputError: no such set or file, not UTF-8, no prompt in it, or wrong lines, each named.
    """
    if name in SHIPPED:
        text = (files("specdec.benchmark") / "prompt_sets" / f"{name}.jsonl").read_text(encoding="utf-8")
        return parse(text, source=f"{name}.jsonl", json_lines=True)
    path = (base or Path()) / name
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        remedy = f"Use a shipped set ({', '.join(SHIPPED)}) or a readable UTF-8 file"
        raise BadInputError(
            str(path), [Mistake("prompts", name, f"is no shipped set and cannot be read: {reason}", remedy)]
        ) from None
    return parse(text, source=str(path), json_lines=path.suffix == ".jsonl")


def of_test_cases(prompts: tuple[Prompt, ...], test_cases: tuple[str, ...]) -> tuple[Prompt, ...]:
    """The prompts of these test cases, or all of them where none is named.

    Raises:
        BadInputError: a test case that the prompts do not have.
    """
    known = list(dict.fromkeys(prompt.test_case for prompt in prompts))
    unknown = [name for name in test_cases if name not in known]
    if unknown:
        remedy = f"Use {', '.join(known)}"
        raise BadInputError(
            "command line",
            [Mistake("--test-case", name, "is not in the prompt set", remedy) for name in unknown],
        )
    return tuple(prompt for prompt in prompts if not test_cases or prompt.test_case in test_cases)


def parse(text: str, *, source: str, json_lines: bool) -> tuple[Prompt, ...]:
    """Reads prompts from text, see ``load``.

    Raises:
        BadInputError: no prompt, or wrong lines; every mistake is in the message.
    """
    mistakes: list[Mistake] = []
    prompts: dict[str, Prompt] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        field = f"{source}:{number}"
        if json_lines:
            prompt = _from_json(line, field, mistakes)
        else:
            prompt = Prompt(id=f"line-{number}", test_case=OWN, prompt_class=OWN, text=line.strip())
        if prompt is None:
            continue
        if prompt.id in prompts:
            mistakes.append(
                Mistake(field, prompt.id, "is the id of an earlier line too", "Give each prompt its own id")
            )
        prompts[prompt.id] = prompt
    if not prompts and not mistakes:
        mistakes.append(Mistake("prompts", source, "has no prompt in it", "Add at least one line"))
    if mistakes:
        raise BadInputError(source, mistakes)
    return tuple(prompts.values())


def _from_json(line: str, field: str, mistakes: list[Mistake]) -> Prompt | None:
    shown = line if len(line) <= 60 else line[:57] + "..."
    try:
        raw: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        mistakes.append(
            Mistake(
                field, shown, f"is not JSON: {error}", 'Write one object per line, e.g. {"prompt": "..."}'
            )
        )
        return None
    if not isinstance(raw, dict):
        mistakes.append(Mistake(field, shown, "is not a JSON object", 'Write {"prompt": "..."}'))
        return None
    values = cast("dict[str, Any]", raw)
    wrong = list(_wrong_fields(values, field)) or list(_wrong_values(values, field))
    if wrong:
        mistakes.extend(wrong)
        return None
    test_case = values.get("test_case", OWN)
    return Prompt(
        id=values.get("id", f"{test_case}-{field.rpartition(':')[2]}"),
        test_case=test_case,
        prompt_class=values.get("class", OWN),
        text=values["prompt"],
        system=values.get("system"),
        output_tokens=values.get("output_tokens"),
        temperature=None if "temperature" not in values else float(values["temperature"]),
    )


def _wrong_fields(values: dict[str, Any], field: str) -> Iterator[Mistake]:
    for name, value in values.items():
        if name not in _FIELDS:
            yield Mistake(f"{field} {name}", value, "is not a field of a prompt", f"Use {', '.join(_FIELDS)}")
            continue
        kind, words = _FIELDS[name]
        if not isinstance(value, kind) or isinstance(value, bool) or value == "":
            yield Mistake(
                f"{field} {name}", value, f"is not {words}", "Correct the value or leave the field out"
            )
    if "prompt" not in values:
        yield Mistake(f"{field} prompt", None, "is missing", "Add what is to be sent")


def _wrong_values(values: dict[str, Any], field: str) -> Iterator[Mistake]:
    if values.get("output_tokens", 2) < 2:
        yield Mistake(
            f"{field} output_tokens",
            values["output_tokens"],
            "is less than 2",
            "Time per token needs two tokens",
        )
    if not 0 <= values.get("temperature", 0) <= 2:
        yield Mistake(
            f"{field} temperature",
            values["temperature"],
            "is not within 0 and 2",
            "Use 0 for greedy decoding",
        )
