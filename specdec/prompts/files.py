"""Splits files of prompts into entries: the kind of a file, and which part of it is one prompt."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, cast

from specdec.errors import BadInputError, Mistake
from specdec.prompts.shapes import KNOWN, TEXT_NAMES
from specdec.text import shortened

_JSON_LINES = (".jsonl", ".ndjson")
_CSV = {".csv": ",", ".tsv": "\t"}
_NO_PROMPTS = {
    **dict.fromkeys((".gz", ".zip", ".zst", ".bz2", ".xz", ".tar", ".tgz"), "is compressed"),
    **dict.fromkeys((".parquet", ".arrow", ".feather", ".xlsx", ".xls", ".ods"), "is a binary table"),
    **dict.fromkeys((".pdf", ".docx", ".doc", ".odt", ".rtf", ".html", ".xml", ".md"), "is a document"),
    **dict.fromkeys((".yaml", ".yml", ".toml", ".ini"), "is a configuration file"),
}
_USE = "Write JSON lines, JSON, CSV, or text with one prompt a line"
_BEGINS_JSON = re.compile(r"""[\[{]\s*(["\[{]|$)""")
_LISTS = ("prompts", "data", "rows", "items", "examples")
"""Fields under which a JSON file keeps its list of prompts."""


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a file.

    Attributes:
        place: where it stands, for messages: ``file:line`` or ``file[index]``.
        number: its line or index, counted from 1.
        value: the text of a line, or what JSON or the row of a table holds.
        table: whether it is the row of a table, whose values are all texts.
    """

    place: str
    number: int
    value: Any
    table: bool = False

    def default_id(self, test_case: str) -> str:
        """The id of a prompt that has none."""
        return f"line-{self.number}" if isinstance(self.value, str) else f"{test_case}-{self.number}"


def read(path: Path) -> str:
    """The text of a file; a byte order mark is dropped wherever it stands.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no text, or its path cannot be one.
    """
    content = path.read_bytes()
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    text = content.decode(encoding)
    if "\0" in text:
        raise ValueError("it is binary: it holds NUL bytes")
    return text.replace("\ufeff", "")


def items(text: str, *, source: str, column: str | None, mistakes: list[Mistake]) -> Iterator[Item]:
    """The entries of a file. What cannot be read as one is added to ``mistakes``.

    Raises:
        BadInputError: a kind of file that holds no prompts, or a table without a column of prompts.
    """
    suffix = PurePath(source).suffix.lower()
    if suffix in _NO_PROMPTS:
        raise BadInputError(source, [Mistake("prompts", source, _NO_PROMPTS[suffix], _USE)])
    text = text.replace("\ufeff", "")
    if suffix in _JSON_LINES:
        return _lines_of_json(text, source, mistakes)
    if suffix == ".json":
        return _document(text, source, mistakes)
    if suffix in _CSV:
        return _rows(text, source, _CSV[suffix], column, mistakes)
    return _of_unknown(text, source, column, mistakes)


def _of_unknown(text: str, source: str, column: str | None, mistakes: list[Mistake]) -> Iterator[Item]:
    """Plain text, unless the content is JSON or a table: nobody means to send brackets as prompts."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if lines and lines[0][0] in "[{":
        if _is_json(text):
            return _document(text, source, mistakes)
        if _is_json(lines[0]) and isinstance(json.loads(lines[0]), dict):
            return _lines_of_json(text, source, mistakes)
        if _BEGINS_JSON.match(lines[0]):
            remedy = (
                "Correct it, or write each prompt as one JSON object a line, in a file that ends in .jsonl"
            )
            shown = shortened(lines[0], 60)
            raise BadInputError(
                source, [Mistake("prompts", shown, "begins like JSON but is not valid JSON", remedy)]
            )
    for delimiter in ",;\t":
        names = [name.strip(' "').lower() for name in lines[0].split(delimiter)] if lines else []
        if len(names) > 1 and set(names) <= KNOWN and set(names) & TEXT_NAMES:
            return _rows(text, source, delimiter, column, mistakes)
    return (
        Item(f"{source}:{number}", number, line.strip())
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    )


def _is_json(text: str) -> bool:
    try:
        _parsed(text)
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(text: str) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a JSON number")

    return _without_marks(json.loads(text, parse_constant=refuse))


def _without_marks(value: Any) -> Any:
    """The same without byte order marks, which JSON can also write as an escape."""
    if isinstance(value, str):
        return value.replace("\ufeff", "")
    if isinstance(value, list):
        return [_without_marks(entry) for entry in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _without_marks(entry) for key, entry in cast("dict[str, Any]", value).items()}
    return value


def _lines_of_json(text: str, source: str, mistakes: list[Mistake]) -> Iterator[Item]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"{source}:{number}"
        try:
            value = _parsed(line)
        except (ValueError, RecursionError) as error:
            mistakes.append(
                _not_json(place, line, error, 'Write one object per line, e.g. {"prompt": "..."}')
            )
            continue
        yield Item(place, number, value)


def _document(text: str, source: str, mistakes: list[Mistake]) -> Iterator[Item]:
    try:
        value = _parsed(text)
    except (ValueError, RecursionError) as error:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) > 1 and _is_json(lines[0]):
            yield from _lines_of_json(text, source, mistakes)
        elif lines:
            mistakes.append(_not_json(source, lines[0], error, "Write an array of prompts"))
        return
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        lists = [name for name in _LISTS if isinstance(fields.get(name), list)]
        entries: list[Any] = fields[lists[0]] if len(lists) == 1 else [fields]
    elif isinstance(value, list):
        entries = cast("list[Any]", value)
    else:
        mistakes.append(Mistake(source, value, "is not a list of prompts", "Write an array of prompts"))
        return
    for index, entry in enumerate(entries):
        yield Item(f"{source}[{index}]", index + 1, {"prompt": entry} if isinstance(entry, str) else entry)


def _not_json(place: str, text: str, error: Exception, remedy: str) -> Mistake:
    reason = "brackets nested too deeply" if isinstance(error, RecursionError) else str(error)
    return Mistake(place, shortened(text.strip(), 60), f"is not JSON: {reason}", remedy)


def _rows(
    text: str, source: str, delimiter: str, column: str | None, mistakes: list[Mistake]
) -> Iterator[Item]:
    first, _, _ = text.lstrip().partition("\n")
    if delimiter == "," and "," not in first and ";" in first:
        delimiter = ";"
    csv.field_size_limit(2**27)
    reader = csv.reader(io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=delimiter, strict=True)
    entries: list[Item] = []
    try:
        heads = [head.strip() for head in next(reader, list[str]())]
        names = heads if column is not None else [head.lower() for head in heads]
        if column is not None and column not in names:
            problem = "is not a column of the file"
        elif column is None and not set(names) & TEXT_NAMES:
            column, problem = ",".join(heads), "has no column that is known to hold prompts"
        else:
            problem = ""
        if problem:
            remedy = (
                f"Name the column with --prompt-column: {', '.join(filter(None, heads)) or 'there is none'}"
            )
            raise BadInputError(source, [Mistake("prompts", column, problem, remedy)])
        if len(set(names)) < len(names):
            raise BadInputError(
                source, [Mistake("prompts", ",".join(heads), "names a column twice", "Name each column once")]
            )
        for number, row in enumerate(reader, 1):
            if not any(cell.strip() for cell in row):
                continue
            place = f"{source}:{reader.line_num}"
            if len(row) != len(names):
                problem = f"has {len(row)} cells, and the heading has {len(names)}"
                remedy = "Quote a cell that holds the separator or a line break"
                mistakes.append(Mistake(place, shortened(delimiter.join(row), 60), problem, remedy))
                continue
            wanted = KNOWN | frozenset([column] if column else [])
            values = {
                name: cell for name, cell in zip(names, row, strict=True) if name in wanted and cell != ""
            }
            entries.append(Item(place, number, values, table=True))
    except csv.Error as error:
        place = f"{source}:{reader.line_num}"
        mistakes.append(Mistake(place, None, f"is not CSV: {error}", "Quote cells as CSV does"))
    return iter(entries)
