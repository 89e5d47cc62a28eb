"""The report as Markdown, for a pull request or a wiki: the same words and tables, without the pictures."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from specdec.report.content import Cell, Command, Content, Part, Table, Text, pages, parts, shown


def render(report: Content, digest: str | None) -> str:
    """The whole document; ``digest`` is the SHA-256 of the records it was computed from, None without any."""
    blocks = [f"# {_escape(report.headline)}"]
    blocks += [_escape(line) for line in (report.sure, report.title) if line]
    if report.tallies:
        blocks.append(
            " · ".join(f"{f'{t.sign} '.lstrip()}**{t.number.shown}** {t.word}" for t in report.tallies)
        )
    if report.sentence:
        blocks.append(_escape(report.sentence))
    blocks += [f"> {_text(warning)}" for warning in report.warnings]
    blocks.append("\n".join(f"- {name}: `{value}`" for name, value in report.facts))
    for section in report.sections:
        blocks.append(f"## {section.title}")
        blocks += [_text(paragraph) for paragraph in section.paragraphs]
        if section.points:
            blocks.append("\n".join(f"- {_text(point)}" for point in section.points))
        blocks += _tables(section.tables)
        for fold in section.folds:
            blocks += _folded(fold.title, _tables(fold.tables))
    if digest is None:
        return "\n\n".join(blocks) + "\n"
    blocks.append(
        f"Computed from `records.jsonl` (SHA-256 `{digest}`). `report.json` names the lines behind every"
        " number."
    )
    if report.foot:
        blocks.append(_escape(report.foot))
    return "\n\n".join(blocks) + "\n"


def _tables(tables: Sequence[Table]) -> list[str]:
    """Tables one after the other; the pages of a long one are opened on demand."""
    blocks: list[str] = []
    for table in tables:
        parts_ = pages(table)
        for page in parts_:
            blocks += [_table(page)] if len(parts_) == 1 else _folded(page.caption, [_table(page)])
    return blocks


def _folded(title: str, blocks: Sequence[str]) -> list[str]:
    """Blocks that are opened on demand where Markdown is shown as a page, as on GitHub and GitLab."""
    return ["<details>", f"<summary>{html.escape(title, quote=False)}</summary>", *blocks, "</details>"]


def _table(table: Table) -> str:
    lines = [f"**{_escape(table.caption)}**", "", _row([_escape(column.title) for column in table.columns])]
    lines.append(_row(["---:" if column.kind == "figure" else "---" for column in table.columns]))
    lines += [_row([_cell(cell) for cell in row]) for row in table.rows]
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(cell: Cell) -> str:
    if not cell.parts:
        return "n/a"
    if cell.code:
        return _code(cell.text)
    text = _escape(cell.text)
    return f"**{text}**" if cell.tone in ("good", "bad") else text


def _text(text: Text) -> str:
    return "".join(_part(part) for part in parts(text))


def _part(part: Part) -> str:
    return _code(part.text) if isinstance(part, Command) else _escape(shown(part))


def _code(text: str) -> str:
    """A code span that holds any text within one table cell: long enough a fence, no line break, no bar."""
    flat = re.sub(r"\s*\n\s*", " ⏎ ", text).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if flat[:1] in ("`", " ") or flat[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{flat}{pad}{fence}" if flat else ""


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#$~])", r"\\\1", text).replace("\n", " ")
