"""Why is it faster or slower? How many proposals are kept, and what that means for window and draft."""

from __future__ import annotations

from specdec import plots
from specdec.analysis.verdict import Acceptance, Measurement, WindowAdvice
from specdec.plots import Picture
from specdec.report.content import Cell, Section, Table, cell, columns, told
from specdec.report.numbers import Number, count, decimals, milliseconds, percent, sentence, times
from specdec.report.parts.view import Evidence, Page, View

MIX = "all, equal weight"

ENOUGH = 20
"""Steps below which a share is left out of the picture: one step more would move it by 5 points."""


def acceptance(view: View) -> Section | None:
    """Tokens per step and acceptance by position."""
    known = [(m, m.acceptance) for m in view.verdict.measurements if m.acceptance is not None]
    if not known:
        return None
    texts = (
        (
            "A speculative step gives the proposals that the target agreed with, and one token of its own."
            " Tokens per step (the acceptance length) is what a step's extra cost buys; a plain baseline"
            " gives exactly 1, which checks the counting."
        ),
    )
    heads = columns(
        "Test case",
        "Variant",
        ">Tokens per step",
        ">Acceptance, of reached",
        ">Steps",
        ">Proposed",
        ">Accepted",
        "Source",
    )

    def evidence(page: Page) -> Evidence:
        chosen = [(m, a) for m, a in known if m.test_case in page.test_cases]
        rows = tuple(
            (
                cell(m.test_case),
                cell(m.variant),
                cell(view.tokens_per_step(m)),
                cell(_share(view, m, "rate", a.rate, "proposals kept, of those reached")),
                cell(_whole(view, m, "steps", a.steps, "steps")),
                cell(_whole(view, m, "proposed", a.proposed, "proposed tokens by the server's count")),
                cell(_whole(view, m, "accepted", a.accepted, "accepted tokens by the server's count")),
                cell(SOURCES[a.source]),
            )
            for m, a in chosen
        )
        pictures: list[Picture] = []
        for variant in view.verdict.speculative:
            own = [(m, a) for m, a in chosen if m.variant == variant]
            pictures += _acceptance_pictures(view, variant, own, page.suffix)
        table = Table("Tokens per step; n/a where the server reports no counts", heads, rows)
        return tuple(pictures), (told(table),)

    (pictures, tables), folds = view.paged(evidence, "Acceptance by test case")
    return Section(
        "acceptance", "How far the draft was right", texts, pictures=pictures, tables=tables, folds=folds
    )


def window(view: View) -> Section | None:
    """Advice on window and draft."""
    advice = view.verdict.windows
    if not advice or not view.complete:
        return None
    texts = [
        (
            "From the measured windows the acceptance and the cost of a step are estimated, and from these"
            f" the time per token of every window, by the {view.verdict.convention} step arithmetic. Draft"
            " cost is what one more position adds to a step, as a share of a baseline step. The range is"
            " that of resampled prompts and of every shape that the cost of a step may have."
        ),
    ]
    texts += [sentence(_named(view, a) + a.says) for a in advice if a.test_case is None]
    heads = columns(
        "Test case",
        *(["Draft"] if _many_drafts(view) else []),
        ">Acceptance",
        ">Draft cost",
        ">Measured window",
        ">Best window",
        ">Predicted speed-up",
        ">Break-even acceptance",
        ">Confidence",
        "Confirm with",
    )

    def shown(cases: tuple[str | None, ...], suffix: str) -> Evidence:
        chosen = [a for a in advice if a.test_case in cases]
        if not chosen:
            return (), ()
        table = Table("Window by test case", heads, tuple(_advice_row(view, a) for a in chosen))
        by_draft = dict.fromkeys(a.variants for a in chosen)
        return tuple(_curves(view, draft, chosen, suffix) for draft in by_draft), (table,)

    drafts = (_drafts(view),) if view.verdict.drafts else ()
    if len(view.pages) == 1:
        (pictures, tables), folds = shown((*view.verdict.test_cases, None), ""), ()
    else:
        pictures, tables = shown((None,), "")
        _, folds = view.paged(lambda page: shown(page.test_cases, page.suffix), "Window by test case")
    return Section(
        "window",
        "Which window, which draft",
        tuple(texts),
        pictures=pictures,
        tables=(*tables, *drafts),
        folds=folds,
    )


SOURCES = {
    "server-per-request": "server's count per request",
    "client-chunks": "one stream chunk per step",
    "client-bursts": "stream chunks close together",
}


def _share(view: View, m: Measurement, key: str, value: float | None, how: str) -> Number | None:
    if value is None:
        return None
    lines = view.trace.measured(m.test_case, m.variant)
    return view.trace.number(f"{key}/{m.variant}/{m.test_case}", value, "share", percent(value), how, lines)


def _whole(view: View, m: Measurement, key: str, value: int | None, how: str) -> Number | None:
    if value is None:
        return None
    lines = view.trace.measured(m.test_case, m.variant)
    return view.trace.number(f"{key}/{m.variant}/{m.test_case}", value, "count", count(value), how, lines)


def _acceptance_pictures(
    view: View, variant: str, known: list[tuple[Measurement, Acceptance]], page: str
) -> list[Picture]:
    place = view.place(variant)
    suffix = f", {variant}" if view.several else ""
    pictures: list[Picture] = []
    histograms = [
        plots.Histogram(m.test_case, _shares(a.histogram), a.tokens_per_step)
        for m, a in known
        if a.histogram and a.steps
    ]
    if histograms:
        pictures.append(
            plots.step_histograms(
                f"steps-{place}{page}",
                f"Share of steps by tokens given, and their mean{suffix}",
                histograms,
                place,
            )
        )
    cells = [
        (m.test_case, tuple(p.conditional if p.reached >= ENOUGH else None for p in a.by_position))
        for m, a in known
        if a.by_position
    ]
    if cells:
        title = (
            f"Acceptance by position, of proposals reached{suffix}; empty: reached by fewer than {ENOUGH}"
            " steps"
        )
        pictures.append(plots.shaded(f"positions-{place}{page}", title, cells, place))
    return pictures


def _shares(histogram: tuple[tuple[int, int], ...]) -> tuple[float, ...]:
    steps = dict(histogram)
    total = sum(steps.values())
    return tuple(steps.get(tokens, 0) / total for tokens in range(1, max(steps) + 1))


def _advice_row(view: View, a: WindowAdvice) -> tuple[Cell, ...]:
    case = a.test_case or MIX
    lines = view.trace.measured(a.test_case, *view.verdict.baselines, *a.variants)
    key = f"window/{'+'.join(a.variants)}/{case}"

    def number(name: str, value: float | None, unit: str, shown: str, how: str) -> Number | None:
        return None if value is None else view.trace.number(f"{key}/{name}", value, unit, shown, how, lines)

    best = number(
        "best", a.recommended, "tokens", str(a.recommended), "window with the lowest predicted TPOT"
    )
    return (
        cell(case),
        *([cell(a.draft)] if _many_drafts(view) else []),
        cell(
            number(
                "acceptance", a.acceptance, "share", percent(a.acceptance), "pooled conditional acceptance"
            )
        ),
        cell(
            number(
                "draft_cost",
                a.draft_cost,
                "share",
                percent(a.draft_cost),
                "cost of one more position over a baseline step",
            )
        ),
        cell(", ".join(map(str, a.measured_windows))),
        cell(best) if best else cell("off", tone="quiet"),
        cell(
            number(
                "speedup",
                a.predicted_speedup,
                "ratio",
                times(a.predicted_speedup),
                "baseline TPOT over predicted TPOT",
            )
        ),
        cell(
            number(
                "break_even",
                a.break_even,
                "share",
                percent(a.break_even or 0),
                "acceptance at which the measured window starts to pay",
            )
        ),
        cell(
            number(
                "confidence",
                a.confidence,
                "share",
                percent(a.confidence),
                "draws of prompts and step costs in which the choice is within 3% of the best",
            )
        ),
        cell(f"window {a.confirm}" if a.confirm is not None else "nothing left"),
    )


def _curves(view: View, variants: tuple[str, ...], advice: list[WindowAdvice], page: str) -> Picture:
    curves = [
        plots.Curve(
            label=a.test_case or MIX,
            windows=tuple(p.window for p in a.curve),
            predicted=tuple(1000 * p.tpot for p in a.curve),
            low=tuple(1000 * p.low for p in a.curve),
            high=tuple(1000 * p.high for p in a.curve),
            measured=tuple(
                (p.window, 1000 * p.measured_tpot) for p in a.curve if p.measured_tpot is not None
            ),
            baseline=1000 * a.baseline_tpot,
            recommended=a.recommended,
        )
        for a in advice
        if a.variants == variants
    ]
    place = view.place(variants[0])
    suffix = f", {'+'.join(variants)}" if view.several else ""
    return plots.window_curves(
        f"window-{place}{page}", f"Time per output token by window, milliseconds{suffix}", curves, place
    )


def _drafts(view: View) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for d in view.verdict.drafts:
        lines = view.trace.measured(None, *view.verdict.baselines, d.variant)
        key = f"draft/{d.variant}"
        speed = view.trace.number(
            f"{key}/speedup",
            d.speedup,
            "ratio",
            times(d.speedup),
            "predicted at the best window, mix of test cases",
            lines,
        )
        rate = view.trace.number(
            f"{key}/acceptance",
            d.acceptance,
            "share",
            percent(d.acceptance),
            "pooled conditional acceptance",
            lines,
        )
        cost = view.trace.number(
            f"{key}/draft_cost",
            d.draft_cost,
            "share",
            percent(d.draft_cost),
            "cost of one more position",
            lines,
        )
        steps = view.trace.number(
            f"{key}/tokens",
            d.tokens_per_step,
            "tokens/step",
            decimals(d.tokens_per_step),
            "predicted there",
            lines,
        )
        need = d.acceptance_to_match
        match = (
            view.trace.number(
                f"{key}/match", need, "share", percent(need), "acceptance for the best row's speed-up", lines
            )
            if need
            else None
        )
        best = cell("off", tone="quiet") if d.window is None else cell(str(d.window))
        rows.append((cell(d.draft), cell(rate), cell(cost), best, cell(steps), cell(speed), cell(match)))
    heads = columns(
        "Draft",
        ">Acceptance",
        ">Draft cost",
        ">Best window",
        ">Tokens per step",
        ">Predicted speed-up",
        ">Acceptance to match the best",
    )
    return Table("Drafts, each at its best window on the mix of test cases", heads, tuple(rows))


def _named(view: View, a: WindowAdvice) -> str:
    return f"{a.draft or '+'.join(a.variants)}: " if _many_drafts(view) else ""


def _many_drafts(view: View) -> bool:
    return len({a.variants for a in view.verdict.windows}) > 1


def roofline(view: View) -> Table | None:
    """Share of the memory-bandwidth limit, by variant."""
    rows: list[tuple[Cell, ...]] = []
    for r in view.verdict.rooflines:
        lines = view.trace.measured(None, r.variant)
        tpot = view.trace.number(
            f"roofline/{r.variant}/tpot", r.tpot, "s", milliseconds(r.tpot), "mean over test cases", lines
        )
        limit = view.trace.number(
            f"roofline/{r.variant}/limit",
            r.limit_tpot,
            "s",
            milliseconds(r.limit_tpot),
            "bytes read per step over memory bandwidth",
            lines,
        )
        share = view.trace.number(
            f"roofline/{r.variant}/share",
            r.share,
            "share",
            percent(r.share),
            "limit over measured TPOT",
            lines,
        )
        rows.append((cell(r.variant), cell(limit), cell(tpot), cell(share), cell(r.says)))
    heads = columns("Variant", ">Limit", ">Measured TPOT", ">Share of the limit", "~What it means")
    return Table("How close to the memory-bandwidth limit", heads, tuple(rows)) if rows else None
