"""Writes docs/commands.md from the help of every command, so that the page cannot drift from the code.

uv run python scripts/write_commands.py          # write
uv run python scripts/write_commands.py --check  # exit 1 if the page is stale; the tests do this
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from specdec.cli import COMMANDS, cli

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
WIDTH = 100

HEAD = """# Commands

This page is written by `scripts/write_commands.py` from what `--help` prints.

Results go to stdout; progress, messages and errors go to stderr. Colours appear on a terminal only,
and not at all with `NO_COLOR` set. Commands with `--json` print one JSON document and nothing else
to stdout. Every region, stack and bucket comes from the experiment file. Commands that ask AWS use
the ordinary credential chain: environment, `AWS_PROFILE`, IAM Identity Center, instance role.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | the answer is no: a run failed, a check found blockers, something is left |
| 2 | wrong input: command line, experiment or prompt file; nothing was started |
| 3 | no access to AWS: credentials absent, expired, or not allowed to do this |
| 4 | this machine, or AWS, cannot do or say it now |
| 130 | interrupted |
| 141 | whoever read the output closed it |

## Completion in the shell

| shell | line for its start file |
| --- | --- |
| bash 4.4 or later | `eval "$(_SPECDEC_COMPLETE=bash_source specdec)"` in `~/.bashrc` |
| zsh | `eval "$(_SPECDEC_COMPLETE=zsh_source specdec)"` in `~/.zshrc` |
| fish | `_SPECDEC_COMPLETE=fish_source specdec \\| source` in `~/.config/fish/completions/specdec.fish` |

`specdec` is on the path in a shell where `.venv/bin/activate` was sourced; elsewhere it is `uv run
specdec`.
"""


def helps(command: click.Command, name: str, parent: click.Context | None = None) -> list[tuple[str, str]]:
    """Name and help of a command, and of every command below it."""
    settings: dict[str, Any] = {
        **command.context_settings,
        "max_content_width": WIDTH,
        "terminal_width": WIDTH,
    }
    context = click.Context(command, info_name=name, parent=parent, **settings)
    entries = [(context.command_path, command.get_help(context))]
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            subcommand = command.get_command(context, below)
            if subcommand is not None:
                entries += helps(subcommand, below, context)
    return entries


def page() -> str:
    """The whole page."""
    parts = [HEAD.rstrip()]
    for path, text in helps(cli, "specdec"):
        level = "###" if path.count(" ") > 1 else "##"
        parts.append(f"{level} {path}\n\n```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Writes or checks the page."""
    wanted = page()
    missing = [name for name in COMMANDS if f"## specdec {name}\n" not in wanted]
    if missing:
        print(f"commands without a module: {', '.join(missing)}", file=sys.stderr)
        return 1
    if "--check" in sys.argv[1:]:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != wanted:
            print(f"{PAGE.name} is stale: run scripts/write_commands.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
