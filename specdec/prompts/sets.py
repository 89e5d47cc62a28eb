"""Prompt sets: shipped ones and a user's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from specdec.errors import BadInputError, Mistake
from specdec.prompts import files as prompt_files
from specdec.prompts import long, synthetic
from specdec.prompts.files import Item
from specdec.prompts.shapes import Turn, fields_of

SHIPPED = ("classes", "published", "rehearsal", "long")
"""Names of the prompt sets inside the package: test cases by class, the eight published ones, few short ones
for a small model, and long ones of three lengths, which are made by rule.
"""

OWN = "own"
"""Test case and class of prompts that name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt.

    Attributes:
        id: unique in its set; records and pairs name it.
        test_case: prompts of one test case are meant to behave alike.
        prompt_class: kind of text that is asked for, see ``RequestRecord``.
        text: what the user says last.
        system: what the system message says, or None.
        turns: what was said between the system message and ``text``, the earliest first.
        output_tokens: instead of the plan's.
        temperature: instead of the plan's.
        listed: how often the file lists it. Equal prompts are one prompt: what a server answers to the second
            says nothing new about how prompts differ.
    """

    id: str
    test_case: str
    prompt_class: str
    text: str
    system: str | None = None
    turns: tuple[Turn, ...] = ()
    output_tokens: int | None = None
    temperature: float | None = None
    listed: int = 1

    @property
    def conversation(self) -> tuple[Turn, ...]:
        """All of it as messages: system, earlier turns, and what the user says last."""
        system = (Turn("system", self.system),) if self.system else ()
        return (*system, *self.turns, Turn("user", self.text))

    @property
    def characters(self) -> int:
        """Length of everything that is sent."""
        return sum(len(turn.content) for turn in self.conversation)


def is_file(name: str) -> bool:
    """Whether a name of prompts is the path of a file, and no set that everybody has."""
    return name not in SHIPPED and not name.startswith(synthetic.SCHEME)


def load(name: str, *, base: Path | None = None, column: str | None = None) -> tuple[Prompt, ...]:
    """The prompts of a shipped set, of a synthetic one or of a file.

    docs/prompts.md lists which files are understood and how each is recognized.

    Args:
        name: a shipped set, ``synthetic:`` with its fields, or the path of a file.
        base: folder that a relative path starts from; the current one by default.
        column: column or field that holds the prompt; by default the one with a usual name.

    Raises:
        BadInputError: no such set or file, a kind of file that holds no prompts, no prompt in it, or wrong
            entries, each named.
    """
    if name.startswith(synthetic.SCHEME):
        return synthetic.prompts(name)
    if name == "long":
        return tuple(
            Prompt(id=f"{case}-{number}", test_case=case, prompt_class=prompt_class, text=text)
            for number, (case, prompt_class, text) in enumerate(long.texts(), 1)
        )
    if name in SHIPPED:
        text = (files("specdec.prompts") / "shipped" / f"{name}.jsonl").read_text(encoding="utf-8")
        return parse(text, source=f"{name}.jsonl")
    try:
        path = (base or Path()) / name
        text = prompt_files.read(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        remedy = f"Use a shipped set ({', '.join(SHIPPED)}) or a readable UTF-8 file"
        raise BadInputError(
            name,
            [
                Mistake(
                    "prompts", name, f"is not a shipped set, and cannot be read as a file: {reason}", remedy
                )
            ],
        ) from None
    return parse(text, source=str(path), column=column)


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


def parse(text: str, *, source: str, column: str | None = None) -> tuple[Prompt, ...]:
    """Reads prompts from text, see ``load``.

    Args:
        text: the whole file.
        source: its path; how it ends says what kind of file it is.
        column: see ``load``.

    Raises:
        BadInputError: no prompt, or wrong entries.
    """
    mistakes: list[Mistake] = []
    prompts: list[tuple[Item, Prompt]] = []
    for item in prompt_files.items(text, source=source, column=column, mistakes=mistakes):
        fields = fields_of(item, column, mistakes)
        if fields is not None:
            test_case = fields.test_case or OWN
            prompt = Prompt(
                id=fields.id or item.default_id(test_case),
                test_case=test_case,
                prompt_class=fields.prompt_class or OWN,
                text=fields.text,
                system=fields.system,
                turns=fields.turns,
                output_tokens=fields.output_tokens,
                temperature=fields.temperature,
            )
            prompts.append((item, prompt))
    unique = _merged(prompts)
    mistakes.extend(_same_ids(unique))
    mistakes.extend(_same_text(unique))
    if not prompts and not mistakes:
        mistakes.append(Mistake("prompts", source, "has no prompt in it", "Add at least one line"))
    if mistakes:
        raise BadInputError(source, mistakes)
    return tuple(prompt for _, prompt in unique)


def _merged(prompts: list[tuple[Item, Prompt]]) -> list[tuple[Item, Prompt]]:
    """Each different prompt once, with how often it is listed."""
    counts = Counter(_content(prompt) for _, prompt in prompts)
    first: dict[object, tuple[Item, Prompt]] = {}
    for item, prompt in prompts:
        content = _content(prompt)
        first.setdefault(content, (item, replace(prompt, listed=counts[content])))
    return list(first.values())


def _content(prompt: Prompt) -> tuple[object, ...]:
    return (prompt.test_case, prompt.conversation, prompt.output_tokens, prompt.temperature)


def _same_ids(prompts: list[tuple[Item, Prompt]]) -> Iterator[Mistake]:
    seen: set[str] = set()
    for item, prompt in prompts:
        if prompt.id in seen:
            remedy = "Give each prompt its own id"
            yield Mistake(item.place, prompt.id, "is the id of an earlier prompt too", remedy)
        seen.add(prompt.id)


def _same_text(prompts: list[tuple[Item, Prompt]]) -> Iterator[Mistake]:
    seen: dict[object, str] = {}
    for item, prompt in prompts:
        key = (prompt.test_case, prompt.conversation)
        if key in seen:
            problem = f"is the text of {seen[key]} with another length or temperature"
            yield Mistake(
                item.place,
                prompt.text,
                f"{problem}, and one test case would take the two for different prompts",
                "Put them into separate test cases",
            )
        seen.setdefault(key, item.place)
