"""Compares two runs: the same prompts on another day, in another region, or with another configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specdec.analysis.moderation import common_spread
from specdec.analysis.pairing import log_ratios, pairs
from specdec.analysis.significance import JOINT_LEVEL, MARGIN, decide, paired_ratio, row_level
from specdec.analysis.verdict import Decision, PairedRatio, Verdict
from specdec.errors import BadInputError, Mistake
from specdec.metrics import TPOT
from specdec.report import plots
from specdec.report.content import Cell, Content, Section, Table, Tally, cell, columns
from specdec.report.numbers import LANE, Number, Trace, decimals, milliseconds, times
from specdec.report.parts.evidence import flat
from specdec.report.parts.view import TONES
from specdec.report.svg import Picture
from specdec.runs.folder import Run
from specdec.runs.record import RequestRecord, measured

WORDS: dict[Decision, str] = {
    "helps": "faster",
    "hurts": "slower",
    "no difference": "no difference",
    "undecided": "undecided",
}
"""What a decision means between two runs: the second against the first."""


@dataclass(frozen=True, slots=True)
class Row:
    """One variant and test case in both runs.

    Attributes:
        variant, test_case: which.
        ratio: TPOT of the first run over that of the second; above 1 the second is faster. None without a
            common prompt.
        decision: from the ratio.
    """

    variant: str
    test_case: str
    ratio: PairedRatio | None
    decision: Decision


@dataclass(frozen=True, slots=True)
class Change:
    """Two runs side by side.

    Attributes:
        first, second: the runs, ``second`` being judged against ``first``.
        rows: per variant and test case that both have.
        sentence: the answer.
    """

    first: Run
    second: Run
    rows: tuple[Row, ...]
    sentence: str


def compare(first: Run, second: Run) -> Change:
    """Compares the measured requests of two runs, paired by prompt and repeat.

    Raises:
        BadInputError: one of them is not complete, no variant has a test case in common, or prompts of one id
            differ.
    """
    for run in (first, second):
        if run.manifest.status != "complete":
            raise _wrong(
                run,
                f"is {run.manifest.status}",
                "Compare complete runs; `specdec report` shows what this one left",
            )
    own, other = _by_row(first), _by_row(second)
    common = [key for key in own if key in other]
    if not common:
        known = ", ".join(sorted({f"{variant}/{case}" for variant, case in own}))
        raise _wrong(
            second,
            f"has no variant and test case in common with run {first.manifest.run} ({known})",
            "Compare runs of one experiment",
        )
    for key in common:
        for pair in pairs(own[key], other[key]):
            before, after = pair.baseline.prompt_tokens, pair.variant.prompt_tokens
            if before is not None and after is not None and before != after:
                said = f"{pair.baseline.prompt} has {after} tokens, and {before} in run {first.manifest.run}"
                raise _wrong(
                    second, f"asked other prompts: {said}", "Compare runs of one prompt set on one model"
                )
    clusters = {key: log_ratios(pairs(own[key], other[key]), TPOT.of) for key in common}
    level, spread = row_level(len(common)), common_spread(list(clusters.values()))
    rows: list[Row] = []
    for key in common:
        ratio = paired_ratio(clusters[key], level=level, common=spread)
        rows.append(Row(*key, ratio, decide(ratio.interval if ratio else None)))
    return Change(first, second, tuple(rows), _sentence(rows, first, second))


def build(change: Change, verdicts: tuple[Verdict, Verdict]) -> tuple[Content, tuple[Trace, Trace]]:
    """The comparison as a report, and the traces into either run's records."""
    traces = Trace(change.first.records), Trace(change.second.records)
    first, second = change.first.manifest, change.second.manifest
    words = [WORDS[row.decision] for row in change.rows]
    tallies = tuple(
        Tally(word, _tally(change, word, words.count(word), traces), TONES[decision])
        for decision, word in WORDS.items()
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
                    " none. Two runs are not interleaved, as two variants of one run are, so whatever else"
                    " changed between them is in the number too."
                ),
            ),
            pictures=_picture(change),
            tables=(_rows(change, verdicts, traces),),
        ),
        Section("verdicts", "What each run says", tables=(_verdicts(verdicts),)),
        _differences(change),
    )
    facts = (
        ("First run", first.run),
        ("Started", first.started_utc),
        ("Configuration hash", first.configuration_hash),
        ("Second run", second.run),
        ("Started", second.started_utc),
        ("Configuration hash", second.configuration_hash),
    )
    return (
        Content(
            f"{second.experiment}: {second.run} against {first.run}",
            change.sentence,
            (),
            tallies,
            facts,
            sections,
        ),
        traces,
    )


def _by_row(run: Run) -> Mapping[tuple[str, str], list[RequestRecord]]:
    rows: dict[tuple[str, str], list[RequestRecord]] = {}
    for record in measured(run.records):
        if record.lane == LANE:
            rows.setdefault((record.variant, record.test_case), []).append(record)
    return rows


def _sentence(rows: list[Row], first: Run, second: Run) -> str:
    found: list[str] = []
    for word in ("faster", "slower"):
        names = [
            f"{row.variant} on {row.test_case} ({times(row.ratio.value)})"
            for row in rows
            if row.ratio and WORDS[row.decision] == word
        ]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            found.append(f"{word}: {', '.join(names[:3])}{more}")
    undecided = sum(row.decision == "undecided" for row in rows)
    if not found:
        found.append("no difference" if not undecided else "no significant difference")
    if undecided:
        found.append(f"{undecided} of {len(rows)} rows are undecided")
    return f"Run {second.manifest.run} against {first.manifest.run}: {'; '.join(found)}."


def _rows(change: Change, verdicts: tuple[Verdict, Verdict], traces: tuple[Trace, Trace]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for row in change.rows:
        medians = [_median(verdict, trace, row) for verdict, trace in zip(verdicts, traces, strict=True)]
        word = WORDS[row.decision]
        ratio = span = None
        if row.ratio:
            key, lines = (
                f"change/{row.variant}/{row.test_case}",
                traces[1].measured(row.test_case, row.variant),
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
                cell(row.test_case),
                cell(row.variant),
                cell(word, tone=TONES[row.decision]),
                cell(ratio),
                span or cell("too few prompts", tone="quiet"),
                cell(medians[0]),
                cell(medians[1]),
            )
        )
    heads = columns(
        "Test case", "Variant", "Second run", ">Change", ">Interval", ">TPOT, first", ">TPOT, second"
    )
    return Table("Time per output token in both runs; medians", heads, tuple(rows))


def _median(verdict: Verdict, trace: Trace, row: Row) -> Number | None:
    m = verdict.measurement(row.variant, row.test_case)
    if m is None or m.tpot is None:
        return None
    lines = trace.measured(row.test_case, row.variant)
    how = f"median over {m.tpot.requests} requests"
    return trace.number(
        f"tpot/{row.variant}/{row.test_case}", m.tpot.median, "s", milliseconds(m.tpot.median), how, lines
    )


def _tally(change: Change, word: str, count: int, traces: tuple[Trace, Trace]) -> Number:
    rows = [row for row in change.rows if WORDS[row.decision] == word]
    lines = sorted({line for row in rows for line in traces[1].measured(row.test_case, row.variant)})
    return traces[1].number(f"tally/{word}", count, "rows", str(count), f"rows that are: {word}", lines)


def _picture(change: Change) -> tuple[Picture, ...]:
    variants = tuple(dict.fromkeys(row.variant for row in change.rows))
    shown = [
        plots.Interval(
            row.test_case,
            variants.index(row.variant),
            row.ratio.value,
            (row.ratio.interval.low, row.ratio.interval.high) if row.ratio.interval else None,
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
        "What the two runs have not in common."
        if tables
        else "Configuration and environment of the two runs are the same."
    )
    return Section("differences", "What else differs", (text,), tables=tuple(tables))


def _wrong(run: Run, problem: str, remedy: str) -> BadInputError:
    return BadInputError("compare", [Mistake("run", run.manifest.run, problem, remedy)])
