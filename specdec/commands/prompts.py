"""``specdec prompts``: the shipped prompt sets, and any set as lines to start an own one from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from specdec import console

if TYPE_CHECKING:
    from specdec.prompts.sets import Prompt


@click.command()
@click.argument("name", metavar="[SET|FILE]", required=False)
@click.option("--test-case", "test_cases", multiple=True, help="Only this test case; may be given again.")
@click.option(
    "--prompt-column",
    metavar="NAME",
    help="Column or field of the file that holds the prompt, if not a usual one.",
)
def command(name: str | None, test_cases: tuple[str, ...], prompt_column: str | None) -> None:
    """List the shipped prompt sets; with SET or FILE, print its prompts, one JSON object a line.

    The lines can be given to --prompts again. So your own set can start from a shipped one, and you can see
    how a file of another layout is read.

    \b
    specdec prompts
    specdec prompts classes > my-prompts.jsonl
    specdec prompts synthetic:input=512,output=128,count=4
    """  # noqa: D301 (click reads the backspace itself as: keep these lines)
    from specdec.prompts.sets import load, of_test_cases

    if name is None:
        _table()
        return
    for prompt in of_test_cases(load(name, column=prompt_column), test_cases):
        console.show_json(json.dumps(_line(prompt), ensure_ascii=False, allow_nan=False))


def _line(prompt: Prompt) -> dict[str, Any]:
    """A prompt under the names that ``--prompts`` reads, with what it says itself."""
    said: dict[str, Any] = {"id": prompt.id, "test_case": prompt.test_case, "class": prompt.prompt_class}
    if prompt.turns:
        said["messages"] = [{"role": turn.role, "content": turn.content} for turn in prompt.conversation]
    else:
        said |= {"system": prompt.system, "prompt": prompt.text}
    said |= {"output_tokens": prompt.output_tokens, "temperature": prompt.temperature}
    return {field: value for field, value in said.items() if value is not None}


def _table() -> None:
    from specdec.prompts.sets import SHIPPED, load

    rows: list[tuple[str, str, str, str]] = []
    for name in SHIPPED:
        prompts = load(name)
        cases = dict.fromkeys(prompt.test_case for prompt in prompts)
        classes = dict.fromkeys(prompt.prompt_class for prompt in prompts)
        rows.append((name, str(len(prompts)), ", ".join(classes), ", ".join(cases)))
    console.show_table(
        [
            console.Column("set"),
            console.Column("prompts", right=True),
            console.Column("classes", fold=True),
            console.Column("test cases", fold=True),
        ],
        rows,
    )
    console.show("\nspecdec prompts SET prints its prompts, to start your own file from.")
