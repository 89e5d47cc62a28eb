"""Composes a report from a run and its verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from specdec import __version__
from specdec.analysis.quality import QualityTest
from specdec.analysis.verdict import Verdict
from specdec.report.content import Content, Section, Tally, Text
from specdec.report.headline import SIGNS, headline
from specdec.report.numbers import Trace
from specdec.report.parts import (
    advice,
    elsewhere,
    every_metric,
    evidence,
    forecast,
    lengths,
    load_windows,
    loads,
    money,
    quality,
    speculation,
    speed,
)
from specdec.report.parts.view import TONES, View, made_with
from specdec.runs.folder import Run

NOT_COUNTED = "does not count"
"""A row that no answer rests on, whatever its speed."""


def build(run: Run, verdict: Verdict, qualities: Sequence[QualityTest] = ()) -> tuple[Content, Trace]:
    """The whole report, and the trace of every number in it."""
    view = View(run, verdict, Trace(run.records, verdict.load))
    made: list[Section | None] = [
        advice.steps(view),
        *loads.sections(view),
        load_windows.section(view),
        speed.result(view),
        lengths.section(view),
        speed.latency(view),
        speculation.acceptance(view),
        speculation.window(view),
        forecast.checked(view),
        money.cost(view) if view.complete else None,
        elsewhere.section(view),
        every_metric.percentiles(view),
        evidence.parity(view),
        quality.section(qualities),
        evidence.failures(view),
        evidence.method(view),
        evidence.limits(view),
        evidence.environment(view),
    ]
    manifest = run.manifest
    top = headline(verdict)
    content = Content(
        title=(
            f"{verdict.experiment}: {', '.join(verdict.speculative) or 'speculation'} against"
            f" {', '.join(verdict.baselines)}"
        ),
        headline=top.do,
        sure=top.sure,
        sentence=verdict.sentence if view.complete else "",
        warnings=_warnings(view),
        tallies=_tallies(view),
        facts=(
            ("Run", verdict.run),
            ("Started", manifest.started_utc),
            ("Ended", manifest.ended_utc),
            ("Configuration hash", verdict.configuration_hash),
        ),
        sections=tuple(section for section in made if section is not None),
        foot=f"Measured with {made_with(manifest)}, judged with specdec {__version__}.",
    )
    return content, view.trace


def _warnings(view: View) -> tuple[Text, ...]:
    warnings: list[Text] = []
    if not view.complete:
        problem = (view.run.manifest.problem or "").rstrip(".")
        warnings.append(
            f"The run did not come to its end{f': {problem}' if problem else ''}. No conclusion is drawn from"
            " what it left."
        )
    if emulated := evidence.emulations(view):
        stood_in = ", ".join(dict.fromkeys(part or words for part, words in emulated))
        warnings.append(f"Not all of this is real: {stood_in}. What this cannot show, below, says how.")
    failed = [
        line
        for variant in view.variants
        for line in view.trace.sent(None, variant)
        if view.run.records[line - 1].outcome != "ok"
    ]
    if failed:
        number = view.trace.number(
            "failed", len(failed), "count", str(len(failed)), "requests that did not end ok", sorted(failed)
        )
        warnings.append((number, " requests failed and are in no other number; see What failed."))
    return tuple(warnings)


def _tallies(view: View) -> tuple[Tally, ...]:
    if not view.complete:
        return ()
    rows = [c for c in view.verdict.comparisons if c.best_baseline]
    words = Counter(c.decision if c.counts else NOT_COUNTED for c in rows)
    tallies: list[Tally] = []
    for word, sign in (*SIGNS.items(), (NOT_COUNTED, "")):
        if words[word]:
            cases = [c for c in rows if (c.decision if c.counts else NOT_COUNTED) == word]
            lines = sorted(
                {line for c in cases for line in view.trace.measured(c.test_case, c.variant, c.against)}
            )
            number = view.trace.number(
                f"tally/{word}",
                words[word],
                "test cases",
                str(words[word]),
                f"rows whose verdict is: {word}",
                lines,
            )
            tallies.append(Tally(word, number, TONES.get(word, "quiet"), sign))
    return tuple(tallies)
