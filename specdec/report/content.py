"""The content of a report, separate from its looks: sections of tables and pictures that both HTML and
Markdown render.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specdec.plots import Picture
from specdec.report.numbers import Number

Tone = Literal["plain", "good", "bad", "quiet"]

MOST_ROWS = 40
"""Rows of a table that are shown at once; a longer one is opened on demand, in pages of so many."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line to copy."""

    text: str


Part = str | Number | Command
Text = str | tuple[Part, ...]
"""Running text, with traced numbers where it states any."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: text and numbers in order.

    Attributes:
        parts: what it holds; nothing renders as "n/a", for "cannot be told".
        tone: good, bad or neutral; never the only carrier of meaning.
        code: whether it is text from outside, to be set in fixed width as it is.
    """

    parts: tuple[Part, ...]
    tone: Tone = "plain"
    code: bool = False

    @property
    def text(self) -> str:
        """As plain text."""
        return "".join(shown(part) for part in self.parts) or "n/a"


@dataclass(frozen=True, slots=True)
class Column:
    """A column head.

    Attributes:
        title: of the column.
        kind: ``word`` for one or two words, ``figure`` for numbers; what may wrap: ``short`` for a few words,
            ``prose`` for sentences.
    """

    title: str
    kind: Literal["word", "figure", "short", "prose"] = "word"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows whose first cell names them."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """Evidence that is opened on demand: one of many pages."""

    title: str
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report.

    Attributes:
        key: anchor.
        title: heading.
        paragraphs: what to know before looking.
        points: the same as a list.
        pictures, tables: the evidence.
        folds: more of it, in pages.
        folded: whether the whole section is opened on demand.
    """

    key: str
    title: str
    paragraphs: tuple[Text, ...] = ()
    points: tuple[Text, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    folds: tuple[Fold, ...] = ()
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Tally:
    """How many test cases came out one way; ``sign`` tells it without colour."""

    word: str
    number: Number
    tone: Tone
    sign: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """A whole report.

    Attributes:
        title: of the document.
        headline: what to do, in one line.
        sure: how sure that is, in one line; may be empty.
        sentence: the answer in full; empty where the headline is all of it.
        warnings: what a reader must know before believing it.
        tallies: test cases by decision.
        facts: run, date, configuration: (name, value) pairs.
        sections: in order.
        foot: with which version it was made; empty where nothing is to be said.
    """

    title: str
    headline: str
    sure: str
    sentence: str
    warnings: tuple[Text, ...]
    tallies: tuple[Tally, ...]
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    foot: str = ""


def shown(part: Part) -> str:
    """A part as plain text."""
    return part if isinstance(part, str) else part.text if isinstance(part, Command) else part.shown


def told(table: Table) -> Table:
    """The table without the columns in which nothing can be told."""
    kept = [
        place
        for place, _ in enumerate(table.columns)
        if place == 0 or any(row[place].parts for row in table.rows)
    ]
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    return Table(table.caption, tuple(table.columns[place] for place in kept), rows)


def pages(table: Table) -> tuple[Table, ...]:
    """A table as pages of at most ``MOST_ROWS`` rows, each named by its rows; one that is no longer as it
    is.
    """
    count = len(table.rows)
    if count <= MOST_ROWS:
        return (table,)
    starts = range(0, count, MOST_ROWS)
    return tuple(
        Table(
            f"{table.caption}: rows {start + 1} to {min(start + MOST_ROWS, count)} of {count}",
            table.columns,
            table.rows[start : start + MOST_ROWS],
        )
        for start in starts
    )


def cell(*parts: Part | None, tone: Tone = "plain", code: bool = False) -> Cell:
    """A cell; if any part is None, the whole cannot be told."""
    known = tuple(part for part in parts if part is not None)
    return Cell(known if len(known) == len(parts) else (), tone, code)


def columns(*titles: str) -> tuple[Column, ...]:
    """Column heads; one that starts with ``>`` is for figures, with ``~`` for prose, with ``:`` for a few
    words.
    """
    kinds: dict[str, Literal["figure", "short", "prose"]] = {">": "figure", ":": "short", "~": "prose"}
    return tuple(
        Column(title[1:], kinds[title[0]]) if title[0] in kinds else Column(title) for title in titles
    )


def parts(text: Text) -> tuple[Part, ...]:
    """Running text as parts."""
    return (text,) if isinstance(text, str) else text
