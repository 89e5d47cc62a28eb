"""The ``specdec`` command: finds the subcommand, turns faults into one message and an exit code."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import sys
from typing import TextIO

import click

from specdec import __version__, console
from specdec.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_PIPE, EnvironmentFault, SpecdecError

COMMANDS = {
    "rehearse": "Run the whole experiment on this machine: no account, no accelerator.",
    "check": "Find out before spending what would fail, and what an hour costs.",
    "forecast": "Forecast what a draft would gain, from answers that are logged already.",
    "estimate": "List what an hour costs and what a token may cost, without asking AWS.",
    "manifests": "Print every Kubernetes object of the experiment.",
    "stacks": "Show how mature each serving stack is and what it can do.",
    "bench": "Measure OpenAI-compatible endpoints against each other.",
    "prompts": "List the shipped prompt sets, or print one to start your own from.",
    "golden": "Serve an endpoint of known timing, to check load generators with.",
    "report": "Judge a stored run, or compare two.",
    "rejoin": "Tell texts that part at near-ties from a defect.",
    "sampling": "Tell whether variants draw from one distribution above temperature 0.",
    "quality": "Tell whether variants answer tasks rightly as often as the baseline.",
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
@click.version_option(__version__, prog_name="specdec")
def cli() -> None:
    """Does speculative decoding pay on Trainium2, for your prompts and your model pair?

    Exit codes: 0 done; 1 the answer is no (a run failed, a check found blockers); 2 wrong input; 3 no access
    to AWS; 4 this machine cannot do it now, or AWS does not answer; 130 interrupted; 141 the output was
    closed.
    """


def main() -> None:
    """Runs a command and ends the process with its exit code; see ``specdec.entry``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A locale that lacks a character is no reason to print nothing.
            stream.reconfigure(errors="backslashreplace")
    status = _status()
    try:
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]
            sys.stdout.flush()
    except OSError as error:
        status = _end(_output_fault(error)) if status == EXIT_OK else status
    _let_go(sys.stdout)
    sys.exit(status)


def _status() -> int:
    stdout = sys.stdout
    try:
        status = cli.main(standalone_mode=False)
        return status if isinstance(status, int) else EXIT_OK
    except (click.exceptions.Abort, KeyboardInterrupt):
        console.say("interrupted")
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        with io.StringIO() as text:
            error.show(text)
            console.say(text.getvalue().rstrip("\n"))
        return error.exit_code
    except SystemExit as error:
        # Click ends so when its help meets a closed pipe, and puts another stream in the place of stdout.
        closed = sys.stdout is not stdout
        return EXIT_PIPE if closed else int(error.code or EXIT_OK)
    except Exception as error:
        fault = _fault(error)
        if fault is None:
            raise
        return _end(fault)


def _fault(error: Exception) -> SpecdecError | None:
    """What a user can do something about, or None: then it is a mistake of this program."""
    match error:
        case SpecdecError():
            return error
        case ModuleNotFoundError():
            return importlib.import_module("specdec.extras").missing(error)
        case OSError(filename=str(name)):
            return EnvironmentFault(f"{name}: {error.strerror}", remedy="Check that file or folder")
        case OSError(errno=errno.EPIPE | errno.ENOSPC | errno.EIO | errno.EBADF | errno.EDQUOT):
            # A file has a name; standard output has none.
            return _output_fault(error)
        case _ if "botocore" in sys.modules:
            # Only a command that asks AWS has loaded it.
            return importlib.import_module("specdec.aws").unexpected(error)
        case _:
            return None


def _end(error: SpecdecError) -> int:
    if not isinstance(error, console.ReaderGone):
        console.say(f"error: {error}" + (f" (remedy: {error.remedy})" if error.remedy else ""))
    return error.exit_code


def _output_fault(error: OSError) -> SpecdecError:
    if error.errno == errno.EPIPE:
        return console.ReaderGone("the output was closed")
    return console.unwritable_output(error)


def _let_go(stream: TextIO | None) -> None:
    """Sends what is still buffered nowhere, so that the interpreter has nothing left to complain about."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno() if stream is not None else 1)
