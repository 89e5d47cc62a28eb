"""One look for every command: progress and messages on stderr, results on stdout, colour and redrawn lines
only where a person looks.

What is printed comes from servers, files and clouds as well: no control character of theirs reaches a
terminal from here. ``NO_COLOR`` (no-color.org), ``TERM=dumb`` and the terminal's width are honoured.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

import click

from specdec.errors import EXIT_PIPE, EnvironmentFault, SpecdecError
from specdec.text import json_of, printable, printable_json

WIDTH = 100
"""Columns that are used at most, so that lines stay readable on a wide screen."""

LINE_EVERY = 30.0
"""Seconds between two lines about a long step where no terminal shows its progress."""


class ReaderGone(SpecdecError):
    """Whoever read the output has closed it, as ``head`` does: there is nothing to say and nobody to hear."""

    exit_code = EXIT_PIPE


@dataclass(frozen=True, slots=True)
class Styled:
    """A text with a colour and weight, shown so where a person looks.

    Attributes:
        text: what is shown.
        style: a colour, with ``bold`` or ``dim`` before it or alone, as rich has them; empty for none.
    """

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: its heading; a line break in it is kept.
        right: whether cells stand at its right edge, as numbers do.
        fold: whether its cells may be broken over lines where the width is not enough.
    """

    title: str
    right: bool = False
    fold: bool = False


def terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at a stream through something that can redraw a line."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def colour(stream: TextIO | None) -> bool:
    """Whether colour may be sent to a stream."""
    return terminal(stream) and not os.environ.get("NO_COLOR")


def width() -> int:
    """Columns to fill on stdout: those of the terminal, ``WIDTH`` at most and where there is none."""
    if sys.stdout is None or not sys.stdout.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        return WIDTH
    return max(20, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def say(message: str) -> None:
    """Prints a message for a person to stderr, or nowhere: no run ends because it cannot be written."""
    with contextlib.suppress(OSError, ValueError):
        print("\n".join(map(printable, message.split("\n"))), file=sys.stderr, flush=True)


def show(*parts: str | Styled) -> None:
    """Prints lines of a result to stdout; parts that follow each other make one text.

    Raises:
        ReaderGone: the output was closed.
        EnvironmentFault: it cannot be written.
    """
    write("".join(_shown(part, colours=colour(sys.stdout)) for part in parts) + "\n")


def show_json(document: Any) -> None:
    """Prints a result as JSON to stdout; raises as ``show``.

    Args:
        document: plain data, or a text that is JSON already.
    """
    text = document if isinstance(document, str) else json_of(document, indent=2)
    write(printable_json(text).rstrip("\n") + "\n")


def show_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str | Styled]], *, heading: bool = True
) -> None:
    """Prints a table to stdout, see ``table``; raises as ``show``."""
    looked_at = terminal(sys.stdout)
    text = table(
        columns,
        rows,
        width=width() if looked_at else None,
        colours=colour(sys.stdout),
        heading=heading,
    )
    write(text + "\n")


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str | Styled]],
    *,
    width: int | None = None,
    colours: bool = False,
    heading: bool = True,
) -> str:
    """A table as text, without a line end after it.

    Args:
        columns: their headings and what may be done with them.
        rows: a cell for each column.
        width: columns of the screen; None for as many as it takes, so that a line is a row for other
            programs. Where it is too narrow for the columns side by side, each row becomes a block of lines.
        colours: whether styles are shown.
        heading: whether the titles of the columns stand above them.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[_text_of(cell) for cell in row] for row in rows]
    natural = [
        max(cell_len(line) for text in (column.title, *texts) for line in text.split("\n"))
        for column, *texts in zip(columns, *cells, strict=True)
    ]
    least = sum(
        min(cells_wide, 10) if column.fold else cells_wide
        for column, cells_wide in zip(columns, natural, strict=True)
    )
    gaps = 2 * (len(columns) - 1)
    if width is not None and least + gaps > width:
        return _blocks(columns, rows, colours=colours)
    wide = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        show_header=heading,
        header_style="dim" if colours else "",
    )
    for column in columns:
        wide.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=not column.fold,
        )
    for row in rows:
        wide.add_row(
            *(
                Text(_text_of(cell), style=cell.style if isinstance(cell, Styled) and colours else "")
                for cell in row
            )
        )
    console = Console(
        width=sum(natural) + gaps + 2 if width is None else width,
        force_terminal=colours,
        color_system="standard" if colours else None,
        highlight=False,
        emoji=False,
        markup=False,
    )
    with console.capture() as captured:
        console.print(wide)
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))


def paragraph(part: str | Styled, *, width: int, colours: bool = False) -> str:
    """A text broken into lines of at most ``width`` columns, without a line end after it."""
    text = _text_of(part)
    lines = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    style = part.style if isinstance(part, Styled) else ""
    return "\n".join(_shown(Styled(line, style), colours=colours) for line in lines)


def _blocks(columns: Sequence[Column], rows: Sequence[Sequence[str | Styled]], *, colours: bool) -> str:
    blocks: list[str] = []
    for row in rows:
        lines = [
            f"{'  ' if index else ''}{' '.join(column.title.split())}: {_shown(cell, colours=colours)}"
            for index, (column, cell) in enumerate(zip(columns, row, strict=True))
        ]
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _text_of(cell: str | Styled) -> str:
    return printable(cell.text if isinstance(cell, Styled) else cell)


def _shown(part: str | Styled, *, colours: bool) -> str:
    text = part.text if isinstance(part, Styled) else part
    text = "\n".join(map(printable, text.split("\n")))
    if not colours or not isinstance(part, Styled) or not part.style:
        return text
    words = part.style.split()
    names = [word for word in words if word not in ("bold", "dim")]
    return click.style(
        text,
        fg=names[0] if names else None,
        bold="bold" in words or None,
        dim="dim" in words or None,
    )


def write(text: str) -> None:
    """Prints a text to stdout as it is; raises as ``show``."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] (closed by whoever started us)
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone("the output was closed") from None
    except OSError as error:
        raise unwritable_output(error) from None


def unwritable_output(error: OSError) -> EnvironmentFault:
    """The fault of a standard output that takes nothing more."""
    return EnvironmentFault(
        f"the output cannot be written: {error.strerror or error}",
        remedy="Free some space, or send it elsewhere",
    )


class Progress:
    """How far one long step is. ``update`` may be called as often as wanted: a terminal is redrawn at most
    ten times a second, and elsewhere a line is printed every ``LINE_EVERY`` seconds.

    Attributes:
        title: what the step is.
        started: monotonic clock, seconds.
        outcome: how it ended, as its last line says unless it raises.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.outcome = "done"
        self.started = time.monotonic()
        self._terminal = terminal(sys.stderr)
        self._drawn = self.started if not self._terminal else 0.0
        if not self._terminal:
            say(f"{title} ...")

    def update(self, detail: str, done: int | None = None, total: int | None = None) -> None:
        """Shows what is being done now and, where known, how much of how much."""
        if done is not None and total is not None:
            detail = f"{detail} {done}/{total}"
        now = time.monotonic()
        line = f"{self.title}: {detail} ({now - self.started:.0f} s)"
        if not self._terminal:
            if now - self._drawn >= LINE_EVERY:
                self._drawn = now
                say(printable(line))
        elif now - self._drawn > 0.1 or (done is not None and done == total):
            self._drawn = now
            columns = shutil.get_terminal_size((WIDTH, 24)).columns
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"{_REDRAW}{printable(line)[: columns - 1]}")
                sys.stderr.flush()

    def close(self, outcome: str) -> None:
        """Ends the step with one lasting line: what it is, how it ended, how long it took."""
        elapsed = time.monotonic() - self.started
        if self._terminal:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(_REDRAW)
        say(f"{self.title}: {outcome} ({elapsed:.1f} s)")


_REDRAW = "\r\x1b[2K"


@contextmanager
def progress(title: str) -> Generator[Progress]:
    """A step of a command. Says how it ended even when it fails."""
    step = Progress(title)
    try:
        yield step
    except BaseException as error:
        step.close("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    step.close(step.outcome)
