"""The verdict for a terminal: the sentence, one table, and what to know about it, in 100 columns."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from specdec import console
from specdec.analysis.compare import Change
from specdec.analysis.load_sentences import shown as load_shown
from specdec.analysis.regression import Regression
from specdec.analysis.verdict import Comparison, LoadVerdict, Measurement, PairedRatio, Verdict
from specdec.console import WIDTH, Column, Styled
from specdec.report.content import MOST_ROWS
from specdec.report.headline import headline
from specdec.report.numbers import decimals, dollars, milliseconds, sentence, times

_DECIDED = ("helps", "hurts")
_STYLES = {"helps": "bold green", "hurts": "bold red", "no difference": "dim", "undecided": "dim"}


def show(verdict: Verdict) -> None:
    """Prints the verdict to stdout, with colour where a person looks."""
    console.write(render(verdict, colour=console.colour(sys.stdout), width=console.width()))


def show_change(change: Change, worse: Sequence[Regression] = ()) -> None:
    """Prints what changed between two runs to stdout, what got worse last."""
    console.write(render_change(change, worse, colour=console.colour(sys.stdout), width=console.width()))


def render(verdict: Verdict, *, colour: bool = False, width: int = WIDTH) -> str:
    """The verdict as text, at most ``width`` columns wide; with ``colour``, as a terminal takes it."""
    complete = verdict.status == "complete"
    top = headline(verdict)
    if complete and verdict.loads is not None:
        columns, rows = _over_load(verdict.loads)
    elif complete and verdict.comparisons:
        columns, rows = _classes(verdict) if _is_long(verdict) else _comparisons(verdict)
    else:
        columns, rows = _measured_classes(verdict) if _is_long(verdict) else _measurements(verdict)
    parts = [
        console.paragraph(Styled(top.do, "bold"), width=width, colours=colour),
        *([console.paragraph(Styled(top.sure), width=width, colours=colour)] if top.sure else []),
        *_table(columns, rows, colour, width),
        *([console.paragraph(Styled(verdict.sentence), width=width, colours=colour)] if complete else []),
    ]
    notes = [
        console.paragraph(Styled(f"- {line}", "dim"), width=width, colours=colour) for line in _notes(verdict)
    ]
    return "\n".join([*parts, *notes]) + "\n"


def render_change(
    change: Change, worse: Sequence[Regression] = (), *, colour: bool = False, width: int = WIDTH
) -> str:
    """What changed between two runs as text, at most ``width`` columns wide."""
    columns = [
        Column("test case", fold=True),
        Column("variant", fold=True),
        Column("change (interval)", right=True),
        Column("second run"),
    ]
    rows = [
        [
            row.name,
            row.variant,
            Styled(_ratio(row.ratio), _STYLES[row.decision]),
            Styled(change.word(row), _STYLES[row.decision]),
        ]
        for row in change.rows
    ]
    more: list[str] = []
    if len(rows) > MOST_ROWS:
        # What is decided comes first.
        order = sorted(range(len(rows)), key=lambda place: change.rows[place].decision not in _DECIDED)
        rows = [rows[place] for place in order[:MOST_ROWS]]
        left = len(order) - MOST_ROWS
        more = [
            console.paragraph(Styled(f"{left} more rows are in the files of this comparison."), width=width)
        ]
    headline = console.paragraph(Styled(change.sentence, "bold"), width=width, colours=colour)
    lines = [console.paragraph(Styled(f"worse: {entry}"), width=width, colours=colour) for entry in worse]
    return "\n".join([headline, *_table(columns, rows, colour, width), *more, *lines]) + "\n"


Rows = list[list[str | Styled]]


def _columns(names: Sequence[str], numbers: Sequence[str], words: Sequence[str] = ()) -> list[Column]:
    """Columns of names, which fold where the terminal is narrow, of numbers, and of words."""
    return [
        *(Column(head, fold=True) for head in names),
        *(Column(head, right=True) for head in numbers),
        *(Column(head, fold=True) for head in words),
    ]


def _comparisons(verdict: Verdict) -> tuple[list[Column], Rows]:
    several = len({(c.variant, c.against) for c in verdict.comparisons}) > 1
    heads = (
        "baseline\nTPOT ms",
        "variant\nTPOT ms",
        "speed-up\n(interval)",
        "tokens\nper step",
        "same\ntext",
        "TTFT ms\nbase/var",
    )
    columns = _columns(["test case", *(["compared"] if several else [])], heads, ["verdict"])
    rows: Rows = []
    for c in verdict.comparisons:
        base, own = verdict.measurement(c.against, c.test_case), verdict.measurement(c.variant, c.test_case)
        style = _STYLES[c.decision] if c.counts else "dim"
        parity = "n/a" if c.parity.state == "not judged" else f"{c.parity.equal}/{c.parity.total}"
        rows.append(
            [
                c.label,
                *([f"{c.variant} : {c.against}"] if several else []),
                _tpot(base),
                _tpot(own),
                Styled(_ratio(c.tpot), style),
                decimals(own.acceptance.tokens_per_step) if own and own.acceptance else "n/a",
                parity,
                f"{_ttft(base)}/{_ttft(own)}",
                Styled(c.decision if c.counts else f"{c.decision} *", style),
            ]
        )
    return columns, rows


def _is_long(verdict: Verdict) -> bool:
    rows = (
        verdict.comparisons if verdict.status == "complete" and verdict.comparisons else verdict.measurements
    )
    return verdict.loads is None and len(rows) > MOST_ROWS


def _classes(verdict: Verdict) -> tuple[list[Column], Rows]:
    """The comparisons of many test cases, folded by class of prompts."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for c in verdict.comparisons:
        if c.best_baseline:
            groups.setdefault((c.prompt_class, c.variant), []).append(c)
    several = len({variant for _, variant in groups}) > 1
    summaries = {(summary.prompt_class, summary.variant): summary for summary in verdict.classes}
    heads = (
        "test\ncases",
        "help",
        "hurt",
        "no dif-\nference",
        "un-\ndecided",
        "do not\ncount",
        "speed-up\n(interval)",
        "tokens\nper step",
    )
    columns = _columns(["class", *(["variant"] if several else [])], heads, ["verdict"])
    rows: Rows = []
    for (prompt_class, variant), members in groups.items():
        counts = Counter(c.decision for c in members if c.counts)
        summary = summaries.get((prompt_class, variant))
        decision = summary.decision if summary else "undecided"
        steps = summary.tokens_per_step if summary else None
        rows.append(
            [
                prompt_class,
                *([variant] if several else []),
                str(len(members)),
                *(str(counts[word]) for word in ("helps", "hurts", "no difference", "undecided")),
                str(len(members) - counts.total()),
                Styled(_ratio(summary.tpot if summary else None), _STYLES[decision]),
                decimals(steps) if steps is not None else "n/a",
                Styled(decision, _STYLES[decision]),
            ]
        )
    return columns, rows


def _measured_classes(verdict: Verdict) -> tuple[list[Column], Rows]:
    """The measurements of many test cases, folded by class of prompts."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for m in verdict.measurements:
        groups.setdefault((m.prompt_class, m.variant), []).append(m)
    columns = _columns(["class", "variant"], ("test cases", "requests ok", "failed"))
    rows: Rows = [
        [
            prompt_class,
            variant,
            str(len(members)),
            str(sum(count for m in members for outcome, count in m.outcomes if outcome == "ok")),
            str(sum(m.failures for m in members)),
        ]
        for (prompt_class, variant), members in groups.items()
    ]
    return columns, rows


def _over_load(loads: LoadVerdict) -> tuple[list[Column], Rows]:
    several = len({row.variant for row in loads.rows}) > 1
    columns = [
        Column("class", fold=True),
        *([Column("variant", fold=True)] if several else []),
        Column("in flight" if loads.unit == "in flight" else "per second", right=True),
        Column("speed-up\n(interval)", right=True),
        Column("tokens\nper step", right=True),
        Column("verdict", fold=True),
    ]
    rows: Rows = [
        [
            row.prompt_class,
            *([row.variant] if several else []),
            load_shown(point.load),
            Styled(_ratio(point.ratio), _STYLES[point.decision]),
            decimals(point.tokens_per_step) if point.tokens_per_step is not None else "n/a",
            Styled(point.decision, _STYLES[point.decision]),
        ]
        for row in loads.rows
        for point in row.points
    ]
    return columns, rows


def _measurements(verdict: Verdict) -> tuple[list[Column], Rows]:
    heads = ("TPOT ms", "tokens per step", "TTFT ms", "requests ok", "failed")
    columns = [
        Column("test case", fold=True),
        Column("variant", fold=True),
        *(Column(head, right=True) for head in heads),
    ]
    rows: Rows = []
    for m in verdict.measurements:
        steps = decimals(m.acceptance.tokens_per_step) if m.acceptance else "n/a"
        ok = sum(count for outcome, count in m.outcomes if outcome == "ok")
        rows.append([m.test_case, m.variant, _tpot(m), steps, _ttft(m), str(ok), str(m.failures)])
    return columns, rows


def _notes(verdict: Verdict) -> list[str]:
    notes = [sentence(a.says) for a in verdict.windows if a.test_case is None]
    if _is_long(verdict):
        count = len(verdict.test_cases)
        notes.insert(0, f"{count} test cases are folded by class; report.html and report.md show each.")
    elif verdict.status == "complete" and verdict.loads is None and verdict.comparisons:
        notes.append(
            "The speed-up is the mean over prompts, each compared with itself; it is not the ratio of the"
            " medians beside it."
        )
    if verdict.status == "complete" and not all(c.counts for c in verdict.comparisons):
        notes.append("* does not count; the sentence above and report.html say why.")
    if verdict.self_check is not None and not verdict.self_check.differs:
        notes.append(sentence(verdict.self_check.says))
    notes.extend(_money(verdict))
    return [*notes, *verdict.caveats]


def _money(verdict: Verdict) -> Iterator[str]:
    """What a million output tokens cost, where a price is known."""
    if not verdict.prices or verdict.status != "complete":
        return
    if verdict.loads is not None:
        yield "What a million output tokens cost at each load stands in report.html."
        return
    spans: list[str] = []
    first = verdict.baselines[0] if verdict.baselines else ""
    base = {m.test_case: m.cost.share_usd for m in verdict.measurements if m.variant == first and m.cost}
    for variant in (*verdict.baselines, *verdict.speculative):
        costs = [m.cost.share_usd for m in verdict.measurements if m.variant == variant and m.cost]
        if costs:
            low, high = dollars(min(costs)), dollars(max(costs))
            ratios = [
                m.cost.share_usd / base[m.test_case]
                for m in verdict.measurements
                if m.variant == variant and m.cost and m.test_case in base
            ]
            against = ""
            if variant != first and ratios:
                against = f", {decimals(min(ratios))} to {decimals(max(ratios))} times {first}"
            spans.append(f"{low if low == high else f'{low} to {high}'} ({variant}{against})")
    if spans:
        yield (
            f"A million output tokens cost, by test case: {', '.join(spans)}. A bill also pays the time"
            " to the first token and free slots, so it usually falls by less than TPOT does."
        )


def _table(columns: list[Column], rows: Rows, colour: bool, width: int) -> list[str]:
    return ["", console.table(columns, rows, width=width, colours=colour), ""] if rows else [""]


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
