"""The options of ``bench`` as they were given, to be kept with the run. Secrets are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

from specdec.runs import command_line

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan

_LEFT_OUT = frozenset(("targets", "model", "resume", "as_json"))
"""Options that the targets say, or that say nothing about what is measured."""

VALUE = "VALUE"
"""In place of the value of a header, which is not stored."""


def line(context: click.Context, plan: Plan, before: str = "") -> str:
    """The command line that measures the same again.

    Args:
        context: of the command that is running.
        plan: what it made of its options.
        before: the command line of the interrupted run that it goes on with.
    """
    given = [
        entry
        for option in context.command.params
        if option.name not in _LEFT_OUT
        and context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        for entry in _entries(option, context.params[option.name or ""])
    ]
    targets = [
        ("--target", f"{target.variant}={target.address}{f'#{target.model}' if target.model else ''}")
        for target in plan.targets
    ]
    replaced = {"--target", *(entry[0] for entry in given)}
    kept = [entry for entry in command_line.entries(before) if entry[0] not in replaced]
    return plan.secrets.hide(command_line.joined([*targets, *kept, *given]))


def _entries(option: click.Parameter, value: Any) -> list[command_line.Entry]:
    name = next(name for name in option.opts if name.startswith("--"))
    if isinstance(option, click.Option) and option.is_flag:
        return [(name,)] if value else [(option.secondary_opts[0],)]
    values = cast("tuple[Any, ...]", value) if option.multiple else (value,)
    return [(name, _text(name, one)) for one in values]


def _text(name: str, value: Any) -> str:
    if name == "--header":
        return f"{str(value).partition(':')[0].strip()}: {VALUE}"
    if isinstance(value, tuple):
        return ",".join(f"{number:.12g}" for number in cast("tuple[float, ...]", value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)
