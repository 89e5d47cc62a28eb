"""Is it faster? The result by test case and class, and the times a user waits."""

from __future__ import annotations

from specdec import plots
from specdec.analysis.verdict import Comparison
from specdec.plots import Picture
from specdec.report.content import Cell, Section, Table, cell, columns
from specdec.report.headline import signed
from specdec.report.numbers import decimals, times
from specdec.report.parts.view import METRICS, TONES, Evidence, Page, View


def result(view: View) -> Section:
    """The result by test case; without ratios and decisions for a run that may not lead to a verdict."""
    rows = [c for c in view.verdict.comparisons if c.tpot is not None]
    if not view.complete or not rows:
        return _measured_only(view)
    margin = f"{100 * view.verdict.margin:.3g}%"
    texts = (
        (
            "Speed-up is the baseline's time per output token (TPOT) over the variant's, paired by prompt:"
            " 2x means half the time per token. The intervals hold together with"
            f" {100 * view.verdict.level:.3g}% confidence. There is no difference when an interval stays"
            f" within {margin} of 1. Otherwise a case helps or hurts when its interval lies wholly on one"
            " side of 1, and is undecided when it does not."
        ),
        (
            "A row whose texts differ without explanation, or whose requests failed, may be marked: it does"
            " not count for the answer above."
        ),
    )

    def evidence(page: Page) -> Evidence:
        chosen = [c for c in rows if c.test_case in page.test_cases]
        title = "Time per output token by test case"
        pictures = (
            *_speed_ups(view, chosen, page.suffix),
            *_dots(view, "tpot", title, "milliseconds per token", 1000, page),
        )
        return pictures, (_cases(view, page),)

    (pictures, tables), folds = view.paged(evidence, "Result by test case")
    classes = (_classes(view),) if view.verdict.classes else ()
    return Section(
        "result", "Is it faster?", texts, pictures=pictures, tables=(*tables, *classes), folds=folds
    )


def latency(view: View) -> Section | None:
    """What a user waits for: first token, whole answer, steps."""
    known = [m for m in view.verdict.measurements if m.e2e is not None or m.ttft is not None]
    if not known:
        return None
    text = (
        "Speculation speeds up decoding, not the first token (TTFT). A step gives several tokens at once, so"
        " the gap between steps (step gap) may grow while the time per token (TPOT) shrinks: the text arrives"
        " in larger bursts."
    )
    heads = columns(
        "Test case", "Variant", ">TTFT", ">TPOT", ">Step gap", ">End to end", ">10% to 90% of requests"
    )

    def evidence(page: Page) -> Evidence:
        rows = tuple(
            (
                cell(m.test_case),
                cell(m.variant),
                cell(view.median("ttft", m)),
                cell(view.median("tpot", m)),
                cell(view.median("step_gap", m)),
                cell(view.median("e2e", m)),
                cell(view.bound("e2e", m, "p10"), " to ", view.bound("e2e", m, "p90")),
            )
            for m in known
            if m.test_case in page.test_cases
        )
        pictures = (
            *_dots(view, "e2e", "End-to-end time by test case", "seconds", 1, page),
            *_dots(view, "ttft", "Time to first token by test case", "milliseconds", 1000, page),
        )
        return pictures, (Table("Medians over requests", heads, rows),)

    (pictures, tables), folds = view.paged(evidence, "Times by test case")
    return Section("latency", "What a user waits for", (text,), pictures=pictures, tables=tables, folds=folds)


def _cases(view: View, page: Page) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for c in view.verdict.comparisons:
        if c.test_case not in page.test_cases:
            continue
        base, own = (
            view.verdict.measurement(c.against, c.test_case),
            view.verdict.measurement(c.variant, c.test_case),
        )
        rows.append(
            (
                cell(c.label),
                *([cell(view.label(c))] if view.several else []),
                decision(view, c),
                cell(view.ratio("tpot", c)),
                view.interval(c),
                cell(view.median("tpot", base)),
                cell(view.median("tpot", own)),
                cell(view.tokens_per_step(own)),
                view.parity(c),
                cell(view.median("ttft", base)),
                cell(view.median("ttft", own)),
            )
        )
    names = (
        view.verdict.baselines[0],
        view.verdict.speculative[0] if len(view.verdict.speculative) == 1 else "variant",
    )
    if view.several:
        names = "against", "variant"
    heads = columns(
        "Test case",
        *(["Compared"] if view.several else []),
        ":Verdict",
        ">Speed-up",
        ">Interval",
        f">TPOT, {names[0]}",
        f">TPOT, {names[1]}",
        ">Tokens per step",
        ":Same text",
        f">TTFT, {names[0]}",
        f">TTFT, {names[1]}",
    )
    caption = (
        "Result by test case; times are medians, and the speed-up is the mean over prompts, each compared"
        " with itself"
    )
    return Table(caption, heads, tuple(rows))


def decision(view: View, c: Comparison) -> Cell:
    """The decision in a word, with what qualifies it."""
    more = c.tpot.more_prompts if c.tpot else None
    qualifier = "" if c.counts else ", does not count"
    if c.decision == "undecided" and more:
        lines = view.trace.measured(c.test_case, c.variant, c.against)
        number = view.trace.number(
            f"more_prompts/{c.variant}/{c.against}/{c.test_case}",
            more,
            "count",
            str(more),
            "prompts missing for a decision",
            lines,
        )
        return cell(f"{signed('undecided')}{qualifier}; ", number, " more prompts", tone="quiet")
    return cell(f"{signed(c.decision)}{qualifier}", tone=TONES[c.decision] if c.counts else "quiet")


def _classes(view: View) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for s in view.verdict.classes:
        lines = sorted(
            {
                n
                for case in s.test_cases
                for n in view.trace.measured(case, s.variant, *view.verdict.baselines)
            }
        )
        key = f"class/{s.variant}/{s.prompt_class}"
        ratio = span = None
        if s.tpot:
            how = f"geometric mean over {s.tpot.prompts} prompts of the best baseline / {s.variant}, TPOT"
            ratio = view.trace.number(key, s.tpot.value, "ratio", times(s.tpot.value), how, lines)
            span = view.ends(key, s.tpot.interval, lines) if s.tpot.interval else None
        steps = None
        if s.tokens_per_step is not None:
            how = "tokens after the first chunk over steps"
            steps = view.trace.number(
                f"{key}/tokens_per_step",
                s.tokens_per_step,
                "tokens/step",
                decimals(s.tokens_per_step),
                how,
                lines,
            )
        rows.append(
            (
                cell(s.prompt_class),
                cell(s.variant),
                cell(signed(s.decision), tone=TONES[s.decision]),
                cell(ratio),
                cell(span[0], " to ", span[1])
                if span
                else cell(s.tpot.no_interval if s.tpot else None, tone="quiet"),
                cell(steps),
                cell(", ".join(s.test_cases)),
            )
        )
    heads = columns(
        "Class", "Variant", "Verdict", ">Speed-up", ">Interval", ">Tokens per step", "~Test cases"
    )
    return Table(
        "Result by class of prompts, against the best baseline of each test case", heads, tuple(rows)
    )


def _measured_only(view: View) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for m in view.verdict.measurements:
        ok = view.trace.measured(m.test_case, m.variant)
        done = view.trace.number(
            f"ok/{m.variant}/{m.test_case}", len(ok), "count", str(len(ok)), "requests that ended ok", ok
        )
        rows.append(
            (
                cell(m.test_case),
                cell(m.variant),
                cell(view.median("tpot", m)),
                cell(view.tokens_per_step(m)),
                cell(done),
            )
        )
    table = Table(
        "Measured until the end of the run; medians",
        columns("Test case", "Variant", ">TPOT", ">Tokens per step", ">Requests"),
        tuple(rows),
    )
    reason = (
        "Nothing here can be compared: there is no pair of measured requests."
        if view.complete
        else (
            "The run is not complete, so there is no comparison and no verdict. These are the numbers it"
            " left."
        )
    )
    return Section("result", "What was measured", (reason,), tables=(table,) if rows else ())


def _speed_ups(view: View, rows: list[Comparison], suffix: str) -> tuple[Picture, ...]:
    shown = [
        plots.Interval(
            c.test_case,
            view.place(c.variant),
            c.tpot.value,
            (c.tpot.interval.low, c.tpot.interval.high) if c.tpot.interval else None,
            signed(c.decision) if c.counts else "does not count",
            quiet=not c.counts or c.decision not in ("helps", "hurts"),
        )
        for c in rows
        if c.tpot and c.best_baseline
    ]
    if not shown:
        return ()
    labels = tuple(dict.fromkeys(interval.label for interval in shown))
    baselines = {c.against for c in rows}
    against = "the best baseline" if len(baselines) > 1 else baselines.pop()
    title = f"Speed-up over {against}, with interval"
    return (plots.speed_ups(f"speed{suffix}", title, shown, view.variants, labels),)


def _dots(view: View, metric: str, title: str, unit: str, scale: float, page: Page) -> tuple[Picture, ...]:
    rows: list[plots.Row] = []
    for case in page.test_cases:
        dots: list[plots.Dots] = []
        for variant in view.variants:
            spread = view.spread(metric, view.verdict.measurement(variant, case))
            if spread is None:
                continue
            records = [view.run.records[line - 1] for line in view.trace.measured(case, variant)]
            values = [METRICS[metric].of(record) for record in records]
            known = tuple(scale * value for value in values if value is not None)
            dots.append(plots.Dots(view.place(variant), known, scale * spread.median))
        if dots:
            rows.append(plots.Row(case, tuple(dots)))
    if not rows:
        return ()
    return (plots.dots_by_case(f"{metric}{page.suffix}", title, unit, rows, view.variants),)
