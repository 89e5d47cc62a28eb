"""A few of the inputs that ``scripts/hostile.py`` tries by the hundred, and what no input may bring about."""

from __future__ import annotations

import ast
from pathlib import Path

import click
import pytest

from scripts.hostile import KINDS, attempt
from specdec.cli import COMMANDS, cli
from specdec.errors import BadInputError
from specdec.experiment.reading import parse

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


FOUND_ONCE = (7091, 7106, 7186, 7450)
"""Tries that once went wrong: half a character and a key in an answer that is followed, two servers that
refuse at once, a byte order mark written as an escape.
"""


@pytest.mark.parametrize("seed", [*range(1, 8 * len(KINDS) + 1), *FOUND_ONCE])
def test_a_hostile_input_ends_in_peace(seed: int) -> None:
    made = attempt(seed)
    assert made.faults == [], made.done.stderr


def test_every_json_that_is_written_is_json() -> None:
    # What is read from others is shown or checked, and may hold what JSON may not.
    reading = {"experiment/reading.py", "benchmark/stream.py", "text.py"}
    for path in sorted((ROOT / "specdec").rglob("*.py")):
        name = path.relative_to(ROOT / "specdec").as_posix()
        if name in reading or name.startswith(("golden/", "rehearsal/")):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "json.dumps":
                assert "allow_nan" in {keyword.arg for keyword in node.keywords}, f"{name}:{node.lineno}"


def options(command: click.Command) -> list[click.Parameter]:
    if isinstance(command, click.Group):
        return [option for name in command.commands for option in options(command.commands[name])]
    return command.params


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_no_option_of_any_command_takes_what_is_no_number(value: str) -> None:
    context = click.Context(cli)
    seen = 0
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        for option in options(command):
            if isinstance(option.type, (click.types.FloatParamType, click.FloatRange)):
                seen += 1
                with pytest.raises(click.UsageError):
                    option.type(value, option, context)
    assert seen > 5


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "line",
    ["[benchmark]\ntemperature = {}", "[benchmark]\nstall_seconds = {}", "[cost]\nnode_usd_per_hour = {}"],
)
def test_no_field_of_an_experiment_is_infinite(line: str, value: str) -> None:
    text = (ROOT / "experiment.toml").read_text(encoding="utf-8")
    section, _, field = line.partition("\n")
    changed = (
        text.replace(section, line.format(value)) if section in text else f"{text}\n{line.format(value)}\n"
    )
    kept = [
        other
        for other in changed.split("\n")
        if not other.startswith(field.partition(" ")[0]) or value in other
    ]
    with pytest.raises(BadInputError):
        parse("\n".join(kept))


def test_the_script_finds_faults_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    from scripts import hostile
    from scripts.hostile_command import Done

    bad = Done(7, f"\x1b[2J{hostile.KEY}", "Traceback")

    def leave(chance: object, folder: Path, server: object) -> Done:
        (folder / "report.json").write_text(f'{{"a": NaN, "b": "{hostile.KEY}"}}')
        return bad

    monkeypatch.setattr(hostile, "KINDS", {"bad": leave})
    assert len(attempt(1).faults) == 6
