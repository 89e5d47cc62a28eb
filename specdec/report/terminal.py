"""The verdict for a terminal: the sentence, one table, and what to know about it, in 100 columns."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from specdec.analysis.compare import CHANGE_WORDS, Change
from specdec.analysis.verdict import Measurement, PairedRatio, Verdict
from specdec.report.numbers import decimals, milliseconds, sentence, times

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 100
_STYLES = {"helps": "bold green", "hurts": "bold red", "no difference": "dim", "undecided": "dim"}


def show(verdict: Verdict) -> None:
    """Prints the verdict to stdout, with colour where a person looks."""
    sys.stdout.write(render(verdict, colour=sys.stdout.isatty()))
    sys.stdout.flush()


def show_change(change: Change) -> None:
    """Prints what changed between two runs to stdout."""
    sys.stdout.write(render_change(change, colour=sys.stdout.isatty()))
    sys.stdout.flush()


def render(verdict: Verdict, *, colour: bool = False, width: int = WIDTH) -> str:
    """The verdict as text, at most ``width`` columns wide; with ``colour``, as a terminal takes it."""
    target, console = _console(colour, width)
    complete = verdict.status == "complete"
    console.print(
        verdict.sentence if complete else f"This run is {verdict.status}: it has numbers, but no verdict.",
        style="bold",
    )
    console.print()
    _print(
        console,
        _comparisons(verdict, colour) if complete and verdict.comparisons else _measurements(verdict, colour),
    )
    for line in _notes(verdict):
        console.print(f"- {line}", style="dim" if colour else None)
    return _text(target, colour)


def render_change(change: Change, *, colour: bool = False, width: int = WIDTH) -> str:
    """What changed between two runs as text, at most ``width`` columns wide."""
    from rich.text import Text

    target, console = _console(colour, width)
    console.print(change.sentence, style="bold")
    console.print()
    table = _table(colour)
    table.add_column("test case", overflow="fold")
    table.add_column("variant", overflow="fold")
    table.add_column("change (interval)", justify="right")
    table.add_column("second run")
    for row in change.rows:
        style = _STYLES[row.decision]
        table.add_row(
            row.test_case,
            row.variant,
            Text(_ratio(row.ratio), style=style),
            Text(CHANGE_WORDS[row.decision], style=style),
        )
    _print(console, table)
    return _text(target, colour)


def _comparisons(verdict: Verdict, colour: bool) -> Table:
    from rich.text import Text

    several = len({(c.variant, c.against) for c in verdict.comparisons}) > 1
    table = _table(colour)
    table.add_column("test case", overflow="fold")
    if several:
        table.add_column("compared", overflow="fold")
    for head in (
        "baseline\nTPOT ms",
        "variant\nTPOT ms",
        "speed-up\n(interval)",
        "tokens\nper step",
        "same\ntext",
        "TTFT ms\nbase/var",
    ):
        table.add_column(head, justify="right")
    table.add_column("verdict", overflow="fold")
    for c in verdict.comparisons:
        base, own = verdict.measurement(c.against, c.test_case), verdict.measurement(c.variant, c.test_case)
        style = _STYLES[c.decision] if c.counts else "dim"
        parity = "n/a" if c.parity.state == "not judged" else f"{c.parity.equal}/{c.parity.total}"
        table.add_row(
            c.test_case,
            *([f"{c.variant} : {c.against}"] if several else []),
            _tpot(base),
            _tpot(own),
            Text(_ratio(c.tpot), style=style),
            decimals(own.acceptance.tokens_per_step) if own and own.acceptance else "n/a",
            parity,
            f"{_ttft(base)}/{_ttft(own)}",
            Text(c.decision if c.counts else f"{c.decision} *", style=style),
        )
    return table


def _measurements(verdict: Verdict, colour: bool) -> Table:
    table = _table(colour)
    table.add_column("test case", overflow="fold")
    table.add_column("variant", overflow="fold")
    for head in ("TPOT ms", "tokens per step", "TTFT ms", "requests ok", "failed"):
        table.add_column(head, justify="right")
    for m in verdict.measurements:
        steps = decimals(m.acceptance.tokens_per_step) if m.acceptance else "n/a"
        ok = sum(count for outcome, count in m.outcomes if outcome == "ok")
        table.add_row(m.test_case, m.variant, _tpot(m), steps, _ttft(m), str(ok), str(m.failures))
    return table


def _notes(verdict: Verdict) -> list[str]:
    notes = [sentence(a.says) for a in verdict.windows if a.test_case is None]
    if verdict.status == "complete" and not all(c.counts for c in verdict.comparisons):
        notes.append("* does not count: the texts differ and nothing explains it, or requests failed.")
    return [*notes, *verdict.caveats]


def _table(colour: bool) -> Table:
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim" if colour else "")


def _print(console: Console, table: Table) -> None:
    if table.row_count:
        console.print(table)
        console.print()


def _console(colour: bool, width: int) -> tuple[io.StringIO, Console]:
    from rich.console import Console

    target = io.StringIO()
    console = Console(
        file=target,
        force_terminal=colour,
        no_color=not colour,
        width=width,
        highlight=False,
        emoji=False,
        markup=False,
    )
    return target, console


def _text(target: io.StringIO, colour: bool) -> str:
    text = target.getvalue()
    return text if colour else "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _ratio(ratio: PairedRatio | None) -> str:
    if ratio is None:
        return "n/a"
    if ratio.interval is None:
        return f"{times(ratio.value)} (n/a)"
    return f"{times(ratio.value)} ({decimals(ratio.interval.low)}-{decimals(ratio.interval.high)})"


def _tpot(m: Measurement | None) -> str:
    return milliseconds(m.tpot.median).removesuffix(" ms") if m and m.tpot else "n/a"


def _ttft(m: Measurement | None) -> str:
    return milliseconds(m.ttft.median).removesuffix(" ms") if m and m.ttft else "n/a"
