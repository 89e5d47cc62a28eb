"""The comparison of two runs as a report."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from specdec import __version__, plots
from specdec.analysis.compare import CHANGE_WORDS, Change, Row
from specdec.analysis.regression import Regression
from specdec.analysis.significance import JOINT_LEVEL, MARGIN
from specdec.analysis.verdict import Verdict
from specdec.metrics.tpot import TPOT
from specdec.plots import Picture
from specdec.report.content import Cell, Content, Section, Table, Tally, cell, columns
from specdec.report.headline import NAMED, SIGNS
from specdec.report.numbers import Number, Trace, decimals, milliseconds, sentence, times
from specdec.report.parts.evidence import flat
from specdec.report.parts.view import TONES, made_with
from specdec.text import listed


def build_change(
    change: Change, verdicts: tuple[Verdict, Verdict], worse: Sequence[Regression]
) -> tuple[Content, tuple[Trace, Trace]]:
    """The comparison as a report, and the traces into either run's records.

    Args:
        change: the two runs, compared.
        verdicts: on each of them.
        worse: what got worse.
    """
    traces = Trace(change.first.records), Trace(change.second.records)
    first, second = change.first.manifest, change.second.manifest
    words = [CHANGE_WORDS[row.decision] for row in _decidable(change)]
    tallies = tuple(
        Tally(word, _tally(change, word, words.count(word), traces), TONES[decision], SIGNS[decision])
        for decision, word in CHANGE_WORDS.items()
        if word in words
    )
    sections = (
        Section(
            "change",
            "Did it change?",
            (
                (
                    "The change is the first run's time per output token (TPOT) over the second's, paired by"
                    " prompt and repeat; above 1 the second run is faster. The intervals hold together with"
                    f" {100 * JOINT_LEVEL:.3g}% confidence; a change under {100 * MARGIN:.3g}% counts as"
                    " none. Two runs are two days, and a day disturbs all its requests alike: where a"
                    " baseline ran unchanged in both, its own change is taken out of the others'; where none"
                    " did, nothing is decided."
                ),
            ),
            pictures=_picture(change),
            tables=(_rows(change, traces),),
        ),
        _regressions(change, worse),
        Section("verdicts", "What each run says", tables=(_verdicts(verdicts),)),
        _differences(change),
    )
    facts = (
        ("First run", first.run),
        ("First started", first.started_utc),
        ("First configuration", first.configuration_hash),
        ("Second run", second.run),
        ("Second started", second.started_utc),
        ("Second configuration", second.configuration_hash),
    )
    return (
        Content(
            f"{second.experiment}: {second.run} against {first.run}",
            _headline(change, worse),
            "",
            change.sentence,
            (),
            tallies,
            facts,
            sections,
            (
                f"Measured with {listed(list(dict.fromkeys([made_with(first), made_with(second)])))},"
                f" compared with specdec {__version__}."
            ),
        ),
        traces,
    )


def _headline(change: Change, worse: Sequence[Regression]) -> str:
    """The answer in one line; names where there are few."""
    decided = [row for row in change.rows if row.against_day]
    if not decided:
        return "Nothing is decided: these two runs have no unchanged baseline, or nothing else, in common."
    parts = [
        f"{word} on {_names(rows, len(decided))}"
        for word, decision in (("slower", "hurts"), ("faster", "helps"))
        if (rows := [row for row in decided if row.decision == decision])
    ]
    lost = [entry for entry in worse if not entry.slower]
    if lost:
        parts.append(f"{len(lost)} {'row no longer counts' if len(lost) == 1 else 'rows no longer count'}")
    if not parts:
        same = all(row.decision == "no difference" for row in decided)
        parts.append("no difference" if same else "no change is shown")
    return sentence("; ".join(parts))


def _names(rows: Sequence[Row], total: int) -> str:
    if len(rows) > NAMED:
        return f"{len(rows)} of {total} rows"
    several = len({row.variant for row in rows}) > 1
    return listed([f"{row.variant}/{row.name}" if several else row.name for row in rows])


def _decidable(change: Change) -> Sequence[Row]:
    """Rows from which the day's own change is taken out, or all rows if there are none. The reference only
    shows how the day was.
    """
    return [row for row in change.rows if row.against_day] or change.rows


def _regressions(change: Change, worse: Sequence[Regression]) -> Section:
    undecided = sum(row.decision == "undecided" for row in change.rows if row.against_day)
    texts: list[str] = []
    if not worse:
        texts.append("No row is shown to be slower, and every row that counted still counts.")
    if undecided:
        texts.append(
            f"{undecided} {'row is' if undecided == 1 else 'rows are'} undecided, which is no regression."
        )
    return Section("regressions", "Did it get worse?", tuple(texts), points=tuple(map(str, worse)))


def _rows(change: Change, traces: tuple[Trace, Trace]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for row in change.rows:
        medians = [_median(trace, row) for trace in traces]
        ratio = span = None
        if row.ratio:
            key, lines = (
                f"change/{row.variant}/{row.name}",
                _lines(traces[1], row),
            )
            how = (
                f"geometric mean over {row.ratio.prompts} prompts of TPOT in {change.first.manifest.run} over"
                " TPOT here"
            )
            ratio = traces[1].number(key, row.ratio.value, "ratio", times(row.ratio.value), how, lines)
            if row.ratio.interval:
                ends = row.ratio.interval
                low = traces[1].number(
                    f"{key}/low", ends.low, "ratio", decimals(ends.low), "low end of its interval", lines
                )
                high = traces[1].number(
                    f"{key}/high", ends.high, "ratio", decimals(ends.high), "high end of its interval", lines
                )
                span = cell(low, " to ", high)
        rows.append(
            (
                cell(row.name),
                cell(row.variant),
                cell(_signed(change, row), tone=TONES[row.decision]),
                cell(ratio),
                span or cell(row.ratio.no_interval if row.ratio else None, tone="quiet"),
                cell(medians[0]),
                cell(medians[1]),
            )
        )
    heads = columns(
        "Test case", "Variant", "Second run", ">Change", ">Interval", ">TPOT, first", ">TPOT, second"
    )
    return Table("Time per output token in both runs; medians", heads, tuple(rows))


def _median(trace: Trace, row: Row) -> Number | None:
    lines = _lines(trace, row)
    values = [value for line in lines if (value := TPOT.of(trace.records[line - 1])) is not None]
    if not values:
        return None
    how = f"median over {len(values)} requests"
    tpot = median(values)
    return trace.number(f"tpot/{row.variant}/{row.name}", tpot, "s", milliseconds(tpot), how, lines)


def _lines(trace: Trace, row: Row) -> Sequence[int]:
    if row.load is None:
        return trace.measured(row.test_case, row.variant)
    return trace.at_load(row.load, [row.test_case], row.variant)


def _signed(change: Change, row: Row) -> str:
    word = change.word(row)
    return word if row.variant == change.reference else f"{SIGNS[row.decision]} {word}"


def _tally(change: Change, word: str, count: int, traces: tuple[Trace, Trace]) -> Number:
    rows = [row for row in _decidable(change) if CHANGE_WORDS[row.decision] == word]
    lines = sorted({line for row in rows for line in _lines(traces[1], row)})
    return traces[1].number(f"tally/{word}", count, "rows", str(count), f"rows that are: {word}", lines)


def _picture(change: Change) -> tuple[Picture, ...]:
    variants = tuple(dict.fromkeys(row.variant for row in change.rows))
    shown = [
        plots.Interval(
            row.name,
            variants.index(row.variant),
            row.ratio.value,
            (row.ratio.interval.low, row.ratio.interval.high) if row.ratio.interval else None,
            _signed(change, row),
            quiet=row.decision not in ("helps", "hurts"),
        )
        for row in change.rows
        if row.ratio
    ]
    if not shown:
        return ()
    labels = tuple(dict.fromkeys(interval.label for interval in shown))
    return (
        plots.speed_ups(
            "change-plot",
            "Second run against the first, with interval",
            shown,
            variants,
            labels,
            unit="times as fast as the first run",
        ),
    )


def _verdicts(verdicts: tuple[Verdict, Verdict]) -> Table:
    rows = tuple((cell(verdict.run), cell(verdict.sentence)) for verdict in verdicts)
    return Table("Speculation against the baseline, in each run", columns("Run", "~Answer"), rows)


def _differences(change: Change) -> Section:
    tables: list[Table] = []
    for caption, first, second in (
        ("Configuration", change.first.manifest.configuration, change.second.manifest.configuration),
        ("Environment", change.first.manifest.environment, change.second.manifest.environment),
    ):
        own, other = dict(flat(first)), dict(flat(second))
        changed = [key for key in dict.fromkeys([*own, *other]) if own.get(key) != other.get(key)]
        rows = tuple(
            (cell(key), cell(own.get(key), code=True), cell(other.get(key), code=True)) for key in changed
        )
        if rows:
            tables.append(Table(caption, columns("Name", "~First run", "~Second run"), rows))
    text = (
        "What differs between the two runs."
        if tables
        else "Configuration and environment of the two runs are the same."
    )
    return Section("differences", "What else differs", (text,), tables=tuple(tables))
