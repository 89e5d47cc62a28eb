"""Can it be believed? Parity of the texts, what failed, how it was measured, and what it cannot show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from specdec.report.content import Cell, Section, Table, Text, cell, columns
from specdec.report.numbers import LANE, Number, sentence, times
from specdec.report.parts.view import INTERVAL, View
from specdec.runs.phases import PHASES, firsts

SHOWN_DIFFERENCES = 20
"""Differing pairs shown in full; the rest is counted, and can be read from the records."""


def parity(view: View) -> Section | None:
    """Whether both variants said the same."""
    if not view.complete or not view.verdict.comparisons:
        return None
    gap = view.verdict.comparisons[0].parity.near_tie_gap
    texts = [
        "At temperature 0 speculation must not change the text. Where it does, and the baseline repeats"
        " itself, the speed of that test case is worthless: the row is marked and does not count. It"
        " is explained when the baseline differs from itself at least as often, or when the baseline's two"
        f" best tokens were nearly equal at the first difference (gap in log-probability below {gap:g})."
    ]
    rows: list[tuple[Cell, ...]] = []
    for c in view.verdict.comparisons:
        p = c.parity
        base = view.trace.measured(c.test_case, c.against)
        key = f"parity/{c.against}/self/{c.test_case}"
        own = cell("one repeat only", tone="quiet")
        if p.self_total:
            equal = view.trace.number(
                f"{key}/equal",
                p.self_equal,
                "count",
                str(p.self_equal),
                "repeats with the same text as the first",
                base,
            )
            total = view.trace.number(
                f"{key}/total", p.self_total, "count", str(p.self_total), "repeats after the first", base
            )
            own = cell(equal, " of ", total)
        state = cell(p.state, tone="bad" if p.state == "differs" else "plain")
        rows.append(
            (cell(c.test_case), *([cell(view.label(c))] if view.several else []), state, view.parity(c), own)
        )
    heads = columns(
        "Test case",
        *(["Compared"] if view.several else []),
        "Texts",
        ">Same text",
        ">Baseline against itself",
    )
    tables = [Table("Pairs with the same text", heads, tuple(rows))]
    differing = [(c, d) for c in view.verdict.comparisons for d in c.parity.differences]
    if differing:
        tables.append(_differences(view))
    if len(differing) > SHOWN_DIFFERENCES:
        texts.append(
            f"{len(differing)} pairs differ; the first {SHOWN_DIFFERENCES} are shown, the others are in"
            " records.jsonl."
        )
    texts += [sentence(test.says) for test in view.verdict.sampled]
    return Section("parity", "Is the text the same?", tuple(texts), tables=tuple(tables))


def failures(view: View) -> Section:
    """Every request that did not end ok."""
    rows: list[tuple[Cell, ...]] = []
    for m in view.verdict.measurements:
        for outcome, ended in m.outcomes:
            if outcome == "ok" or not ended:
                continue
            lines = view.trace.ended(m.test_case, m.variant, outcome)
            key = f"outcome/{m.variant}/{m.test_case}/{outcome}"
            number = view.trace.number(
                key, ended, "count", str(ended), f"requests that ended {outcome}", lines
            )
            words = Counter(view.run.records[line - 1].error for line in lines)
            said = "; ".join(word for word, _ in words.most_common(3) if word) or "nothing"
            rows.append(
                (
                    cell(m.test_case),
                    cell(m.variant),
                    cell(outcome, tone="bad"),
                    cell(number),
                    cell(said, code=True),
                )
            )
    if not rows:
        sent = sorted(line for variant in view.variants for line in view.trace.sent(None, variant))
        number = view.trace.number(
            "sent", len(sent), "count", str(len(sent)), "requests, warm-ups left out", sent
        )
        return Section("failures", "What failed", (("Nothing: all ", number, " requests ended as asked."),))
    texts = (
        (
            "These requests are in no other number of this report. A variant that fails more often is not"
            " faster, whatever its times say."
        ),
    )
    heads = columns("Test case", "Variant", "Outcome", ">Requests", "~What was said")
    return Section(
        "failures", "What failed", texts, tables=(Table("Requests that did not end ok", heads, tuple(rows)),)
    )


def method(view: View) -> Section:
    """How it was measured."""
    lines = sorted(line for variant in view.variants for line in view.trace.sent(None, variant))
    measured = [view.run.records[line - 1] for line in lines]
    unmeasured = [(line, r) for line, r in enumerate(view.run.records, 1) if r.lane == LANE and r.warmup]
    warmups = [line for line, r in unmeasured if r.block < 0]
    holding = [line for line, r in unmeasured if r.block >= 0]
    points: list[Text] = [
        (
            view.trace.number(
                "sent", len(lines), "count", str(len(lines)), "requests, warm-ups left out", lines
            ),
            " requests, and ",
            # A number is followed to its lines, and none has none.
            view.trace.number(
                "warmups", len(warmups), "count", str(len(warmups)), "warm-up requests", warmups
            )
            if warmups
            else "no",
            " warm-ups",
            *_holding(view, holding),
            ", which enter no number.",
        ),
        (
            f"Requests in flight by design: {_values(r.concurrency for r in measured)}. Output tokens asked"
            f" for: {_values(r.requested_tokens for r in measured)}. Temperature:"
            f" {_values(r.temperature for r in measured)}. Thinking mode:"
            f" {_values(r.thinking for r in measured)}."
        ),
        (
            f"{_schedule(view)} {len({r.block for r in measured})} blocks, and are paired by prompt and"
            f" {'the phases of the baseline before and after' if view.verdict.phases else 'repeat'};"
            f" {len({r.prompt for r in measured})} prompts, up to"
            f" {max((r.repeat for r in measured), default=-1) + 1} repeats each."
        ),
        *_self_check(view),
        (
            "Repeats of a prompt at temperature 0 are not independent, so a prompt counts once. An interval"
            f" is {INTERVAL}."
        ),
        f"Token counts: {_values(r.token_source for r in measured if r.outcome == 'ok')}.",
        (
            "Every number of this report is computed from records.jsonl, which keeps the raw times of every"
            " chunk; report.json names the lines behind each."
        ),
    ]
    rows = tuple((cell(number), cell(source)) for number, source in view.verdict.sources)
    tables = (
        [Table("Where each kind of number comes from", columns("Number", "~Source"), rows)] if rows else []
    )
    heads = columns("Variant", "Role", "Model", "Mode", "Draft", ">Window")
    variants = tuple(
        (
            cell(name),
            *(cell(_word(facts.get(field))) for field in ("role", "model", "mode", "draft", "window")),
        )
        for name, facts in view.run.manifest.variants.items()
    )
    return Section(
        "method",
        "How it was measured",
        points=tuple(points),
        tables=(Table("Variants", heads, variants), *_phases(view), *tables),
    )


def _holding(view: View, lines: list[int]) -> Iterator[str | Number]:
    """Requests that were sent beside the measured ones, so that a load did not fall before their end."""
    if lines:
        how = "requests that kept a load up until the last measured one had ended"
        yield " and "
        yield view.trace.number("holding", len(lines), "count", str(len(lines)), how, lines)
        yield " that kept a load up"


def _phases(view: View) -> Iterator[Table]:
    """When each variant was served, and how far the same variant's later phases are from its first."""
    if not view.verdict.phases:
        return
    heads = columns(">Phase", "Variant", ">Middle, min", ">Requests", ">TPOT, ms", ">Against its first")
    rows = (
        (
            str(level.phase + 1),
            level.variant,
            f"{level.minutes:.1f}",
            str(level.requests),
            "n/a" if level.tpot is None else f"{1e3 * level.tpot:.2f}",
            "n/a" if level.against_first is None else f"{level.against_first:.3f}x",
        )
        for level in view.verdict.phases
    )
    yield Table("Phases", heads, tuple(tuple(map(cell, row)) for row in rows))


def _self_check(view: View) -> Iterator[Text]:
    """The baseline against itself, and the noise floor."""
    check = view.verdict.self_check
    if check is None:
        yield "The baseline was not measured against itself, so the noise floor of this run is not known."
        return
    again = view.trace.again()
    lines = sorted([*again, *view.trace.measured(None, check.baseline)])
    sent = str(check.requests)
    how = "requests of the second arm"
    requests = view.trace.number("self_check/requests", check.requests, "count", sent, how, again)
    lead = f"{check.baseline} was measured against itself, as if it were a variant, with "
    if check.tpot is None or check.tpot.interval is None or check.floor is None:
        why = check.tpot.no_interval if check.tpot else "no pair with a time per token"
        yield lead, requests, f" of its requests: {why}, so the noise floor is not known."
        return
    how = f"geometric mean over {check.tpot.prompts} prompts of {check.baseline} / its second arm, TPOT"
    ratio = view.trace.number("self_check", check.tpot.value, "ratio", times(check.tpot.value), how, lines)
    low, high = view.ends("self_check", check.tpot.interval, lines)
    floor = view.trace.number(
        "self_check/floor",
        check.floor - 1,
        "share",
        f"{check.floor - 1:.1%}",
        "the end of the interval that is farther from 1",
        lines,
    )
    end = "; something in this run makes equal things differ." if check.differs else "."
    yield (
        lead,
        requests,
        " of its requests: ",
        ratio,
        " (",
        low,
        " to ",
        high,
        "). The noise floor is ",
        floor,
        f": a smaller difference is undecided{end}",
    )


def _schedule(view: View) -> str:
    """How the variants shared the time, by the run's own settings."""
    match view.run.manifest.environment.get("load"):
        case {"schedule": "concurrent"}:
            return (
                "Variants are measured at the same time and disturb each other where they share hardware; in"
            )
        case {"schedule": "alternate"}:
            return "Variants alternate in"
        case {"schedule": "sequential"}:
            return f"Variants are served one after the other, in {len(view.verdict.phases)} phases and"
        case _:
            return "Variants are measured in"


def limits(view: View) -> Section | None:
    """What was emulated, and what limits the verdict."""
    points = (
        *view.verdict.caveats,
        *(f"Not real: {f'{part}. {words}' if part else words}" for part, words in emulations(view)),
    )
    return Section("limits", "What this cannot show", points=points) if points else None


def environment(view: View) -> Section:
    """Machine, versions, configuration."""
    manifest = view.run.manifest
    shown = {name: fact for name, fact in manifest.environment.items() if name not in ("emulated", PHASES)}
    facts = flat({**shown, "served": firsts(manifest.environment)})
    counters = [
        (f"{variant}.{key}", value)
        for variant, c in manifest.server_counters.items()
        if c
        for key, value in flat(c)
    ]
    silent = [variant for variant, c in manifest.server_counters.items() if not c]
    tables = [
        _facts("Environment", facts),
        _facts("Configuration, all defaults filled in", flat(manifest.configuration)),
    ]
    if counters:
        tables.insert(
            1, _facts("Speculation counters of the servers over the measured part of the run", counters)
        )
    texts = (
        (f"The servers of these variants report no speculation counters: {', '.join(silent)}.",)
        if silent
        else ()
    )
    return Section(
        "environment",
        "Environment and configuration",
        texts,
        tables=tuple(table for table in tables if table.rows),
        folded=True,
    )


def emulations(view: View) -> tuple[tuple[str, str], ...]:
    """The emulated parts of this run, as the benchmark recorded them: (part, what replaced it)."""
    parts = flat(view.run.manifest.environment.get("emulated") or {}, number=False)
    return tuple((re.sub(r", \d+$", "", part), words) for part, words in parts)


def flat(value: Any, prefix: str = "", *, number: bool = True) -> list[tuple[str, str]]:
    """Nested plain data as (dotted name, text) pairs; absent values are left out."""
    join = f"{prefix}." if prefix else ""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return [pair for key, inner in items for pair in flat(inner, f"{join}{key}", number=number)]
    if isinstance(value, list | tuple):
        entries = cast("list[Any]", value)
        if number and all(isinstance(entry, str | int | float) for entry in entries):
            return [(prefix, ", ".join(map(str, entries)))] if entries else []
        return [
            pair
            for index, inner in enumerate(entries)
            for pair in flat(inner, f"{prefix}[{index}]" if number else prefix, number=number)
        ]
    return [] if value is None else [(prefix, _word(value) or "")]


def _differences(view: View) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for c in view.verdict.comparisons:
        for d in c.parity.differences:
            lines = view.trace.pair((c.variant, c.against), d.prompt, d.repeat)
            key = f"difference/{c.variant}/{c.against}/{d.prompt}/{d.repeat}"
            position = view.trace.number(
                f"{key}/position",
                d.position,
                "characters",
                str(d.position),
                "equal characters before it",
                lines,
            )
            length = view.trace.number(
                f"{key}/length",
                d.length,
                "characters",
                str(d.length),
                f"characters of the text of {c.against}",
                lines,
            )
            tie = {None: "not asked", True: "yes", False: "no"}[d.near_tie]
            pair = cell(f"{d.prompt}, repeat {d.repeat + 1}")
            rows.append(
                (
                    pair,
                    cell(position, " of ", length),
                    cell(d.baseline, code=True),
                    cell(d.variant, code=True),
                    cell(tie),
                )
            )
    heads = columns("Prompt", ">First difference", "~Baseline goes on", "~Variant goes on", "Near-tie")
    return Table("Where texts first differ, in characters", heads, tuple(rows[:SHOWN_DIFFERENCES]))


def _facts(caption: str, pairs: list[tuple[str, str]]) -> Table:
    return Table(
        caption, columns("Name", "~Value"), tuple((cell(key), cell(value, code=True)) for key, value in pairs)
    )


def _word(value: object) -> str | None:
    return (
        None
        if value is None
        else {True: "yes", False: "no"}[value]
        if isinstance(value, bool)
        else str(value)
    )


def _values(values: Any) -> str:
    return (
        ", ".join(dict.fromkeys("not set" if value is None else _word(value) or "" for value in values))
        or "none"
    )
