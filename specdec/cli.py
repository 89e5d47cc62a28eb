"""The ``specdec`` command: finds the subcommand, turns faults into one message and an exit code."""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

import click

from specdec.errors import EXIT_INTERRUPTED, SpecdecError

COMMANDS = {
    "rehearse": "Run the whole experiment on this machine: no account, no accelerator.",
    "check": "Find out before spending what would fail, and what an hour costs.",
    "estimate": "List what an hour costs and what a token may cost, without asking AWS.",
    "manifests": "Print every Kubernetes object of the experiment.",
    "stacks": "Show how mature each serving stack is and what it can do.",
    "bench": "Measure OpenAI-compatible endpoints against each other.",
    "golden": "Serve an endpoint of known timing, to check load generators with.",
    "report": "Judge a stored run, or compare two.",
    "tune": "Find the window and draft to use, from one measured window.",
    "nodes": "Set the number of accelerator nodes, and follow what happens on them.",
    "wait": "Wait until a new run has ended, or something has failed.",
    "run": "Start another benchmark run on a deployed stack.",
    "runs": "List the runs in the bucket.",
    "clone": "Take the experiment to another region.",
    "leftovers": "List what still exists after the stack is destroyed.",
}
"""Subcommand name to its line in ``specdec --help``, in the order a user meets them. The module is
``specdec.commands.<name>``.
"""


class LazyGroup(click.Group):
    """Lists subcommands from ``COMMANDS`` and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns the subcommand, or None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"specdec.commands.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="specdec")
def cli() -> None:
    """Does speculative decoding pay on Trainium2, for your prompts and your model pair?

    Exit codes: 0 done; 1 the answer is no (a run failed, a check found blockers); 2 wrong input; 3 no access
    to AWS; 4 this machine cannot do it now; 130 interrupted.
    """


def _end(error: SpecdecError) -> NoReturn:
    click.echo(f"error: {error}" + (f" (remedy: {error.remedy})" if error.remedy else ""), err=True)
    sys.exit(error.exit_code)


def main() -> None:
    """Entry point of the ``specdec`` script."""
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except SpecdecError as error:
        _end(error)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except ModuleNotFoundError as error:
        fault = importlib.import_module("specdec.extras").missing(error)
        if fault is None:
            raise
        _end(fault)
    except Exception as error:
        # Only a command that asks AWS has loaded botocore.
        fault = (
            importlib.import_module("specdec.aws").unexpected(error) if "botocore" in sys.modules else None
        )
        if fault is None:
            raise
        _end(fault)
    sys.exit(status if isinstance(status, int) else 0)
