"""Errors a user can act on, and the exit code each kind ends with."""

from __future__ import annotations

from dataclasses import dataclass

from specdec.text import printable, shortened

EXIT_OK = 0
EXIT_FAILED = 1
"""The command ran and its answer is no: a run failed, a check found blockers, a comparison did not hold."""
EXIT_BAD_INPUT = 2
"""The command line, the experiment file or a prompt file is wrong. Nothing was started."""
EXIT_NO_ACCESS = 3
"""AWS credentials are absent, expired or not allowed to do this."""
EXIT_ENVIRONMENT = 4
"""This machine cannot do it now: port taken, disk full, engine does not start, another rehearsal runs."""
EXIT_INTERRUPTED = 130
"""Ctrl-C. What was measured until then is kept."""
EXIT_PIPE = 141
"""Whoever read the output closed it; the number that a shell gives to a program ended by SIGPIPE."""


class SpecdecError(Exception):
    """A fault with a remedy. The command line prints it as one message, without a traceback.

    Attributes:
        exit_code: process exit status this kind of fault ends with.
        remedy: what the user can do about it, one sentence or command.
    """

    exit_code = EXIT_FAILED

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy


class NoAccessError(SpecdecError):
    """AWS refused or could not identify the caller. Never to be read as "no capacity"."""

    exit_code = EXIT_NO_ACCESS


class EnvironmentFault(SpecdecError):
    """Something this machine lacks or holds."""

    exit_code = EXIT_ENVIRONMENT


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong with an input.

    Attributes:
        field: dotted path of the field, e.g. ``variants[1].draft``, or ``file:line``.
        value: what was given, as the user wrote it; None or an empty list where nothing was.
        problem: why it cannot be.
        remedy: what to write instead.
    """

    field: str
    value: object
    problem: str
    remedy: str

    def __str__(self) -> str:
        nothing = self.value is None or self.value in ([], ())
        value = "" if nothing else f" = {shortened(repr(self.value))}"
        return printable(f"{self.field}{value}: {self.problem}. {self.remedy}")


SHOWN = 20
"""Mistakes of one input that are printed; the others are counted."""


class BadInputError(SpecdecError):
    """One or more mistakes in an input, reported at once, the first ``SHOWN`` of them in words."""

    exit_code = EXIT_BAD_INPUT

    def __init__(self, source: str, mistakes: list[Mistake]) -> None:
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        lines = [f"{printable(source)}: {count}", *(f"  - {mistake}" for mistake in mistakes[:SHOWN])]
        if len(mistakes) > SHOWN:
            lines.append(f"  and {len(mistakes) - SHOWN} more")
        super().__init__("\n".join(lines))
        self.source = source
        self.mistakes = mistakes
