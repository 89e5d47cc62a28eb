"""The page of a forecast: what to do, the curves behind the advice, and its assumptions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from specdec import atomic, plots
from specdec.analysis.cost import usd_per_million_tokens
from specdec.forecast.forecast import Forecast
from specdec.forecast.outlook import LOOK_UP_SLOPES, MODEL_SLOPES, DraftOutlook, Gain, GroupOutlook, Outlook
from specdec.report import html, markdown
from specdec.report.content import Cell, Content, Section, Table, Tone, cell, columns
from specdec.text import json_of

SHOWN = (1, 2, 3, 4, 5, 7, 9, 12, 15)
"""Windows of the tables; the pictures and forecast.json have all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rented:
    """An instance as it would serve the target.

    Attributes:
        instance: EC2 instance type.
        usd_per_hour: of the share of it that is used.
        step: seconds of a plain step: fastest and slowest of what published services reach of its memory
            roof.
        source: of the price, with its date.
    """

    instance: str
    usd_per_hour: float
    step: tuple[float, float]
    source: str


def write(forecast: Forecast, folder: Path, rented: Sequence[Rented] = ()) -> Path:
    """Writes forecast.html, forecast.md and forecast.json into ``folder``; gives the page."""
    folder.mkdir(parents=True, exist_ok=True)
    content = build(forecast, rented)
    atomic.write(folder / "forecast.json", json_of(dataclasses.asdict(forecast)) + "\n")
    atomic.write(folder / "forecast.md", markdown.render(content, None))
    atomic.write(folder / "forecast.html", html.render(content, None))
    return folder / "forecast.html"


def build(forecast: Forecast, rented: Sequence[Rented] = ()) -> Content:
    """The page's content."""
    best = headline(forecast)
    return Content(
        title=f"Forecast from {forecast.answers} answers: {', '.join(d.draft for d in forecast.drafts)}",
        headline=_capital(f"{best.draft}: {best.mix.says}"),
        sure=(
            "Tokens per step follow from these answers; "
            + ("the cost of a step was measured." if forecast.costs else "the cost of a step is assumed.")
        ),
        sentence="",
        warnings=(),
        tallies=(),
        facts=(
            ("Answers", f"{forecast.answers} with {forecast.tokens} tokens"),
            ("Step arithmetic", forecast.convention),
        ),
        sections=(
            *(_draft(outlook, place) for place, outlook in enumerate(forecast.drafts, 1)),
            *(_money(forecast, best, rented) if rented else ()),
            _basis(forecast),
        ),
    )


def headline(forecast: Forecast) -> DraftOutlook:
    """The draft with the best middle of its band."""
    return max(forecast.drafts, key=lambda draft: _middle(_best(draft.mix)))


def _pays_below(cost: float) -> str:
    """A step that verifies costs more than a plain one, so a limit below 1 is never met."""
    return f"{cost:.2f} plain steps" if cost > 1 else "never"


def _best(group: GroupOutlook) -> Outlook:
    return next(point for point in group.curve if point.window == group.window)


def _middle(point: Outlook) -> float:
    return point.speedup if point.speedup is not None else (point.speedup_low + point.speedup_high) / 2


def _draft(outlook: DraftOutlook, place: int) -> Section:
    groups = (*outlook.groups, outlook.mix)
    series = [
        plots.Series(
            group.group or "all",
            number,
            tuple(plots.Point(p.window, p.tokens_per_step, (p.low, p.high)) for p in group.curve),
        )
        for number, group in enumerate(groups)
    ]
    bands = [
        plots.Series(
            group.group or "all",
            number,
            tuple(plots.Point(p.window, _middle(p), (p.speedup_low, p.speedup_high)) for p in group.curve),
        )
        for number, group in enumerate([outlook.mix])
    ]
    window = plots.Axis("window")
    return Section(
        key=f"draft-{place}",
        title=_capital(outlook.draft),
        paragraphs=(
            f"{_capital(outlook.mix.says)}.",
            "Tokens per step are of these answers. Ranges hold 90% of what other prompts of the kind may"
            " give, at any cost that a step may have, so the upper end of a speed-up can lie above the tokens"
            " per step of these answers.",
            f"It rests on {outlook.rests_on}.",
        ),
        points=tuple(f"{count} texts left out: {reason}" for reason, count in outlook.left_out.items()),
        pictures=(
            plots.lines(f"tokens-{place}", "Tokens per step by window", window, plots.Axis("tokens"), series),
            plots.lines(
                f"speed-{place}",
                "Times the plain speed by window, all answers",
                window,
                plots.Axis("ratio"),
                bands,
                limits=[plots.Limit("plain", 1)],
            ),
        ),
        tables=(
            _advice(groups),
            _curves(groups),
            _thirds(groups),
            _gains("Prompts that gain most", outlook.most, outlook.mix.window),
            _gains("Prompts that gain least", outlook.least, outlook.mix.window),
        ),
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_TONES: dict[str, Tone] = {"rent": "good", "leave": "bad", "measure": "plain"}


def _advice(groups: Sequence[GroupOutlook]) -> Table:
    rows = tuple(
        (
            cell(group.group or "all"),
            cell(str(group.answers)),
            cell(str(group.window)),
            cell(f"{_best(group).speedup_low:.2f} to {_best(group).speedup_high:.2f}x"),
            # Where nothing was ever proposed, no step is one that could cost more.
            cell(_pays_below(_best(group).pays_below)),
            cell(group.advice, tone=_TONES[group.advice]),
        )
        for group in groups
    )
    heads = columns(
        "Answers", ">Count", ">Window", ">Times the plain speed", ">Pays if a step costs less than", "Advice"
    )
    return Table("What to do, per kind of answer", heads, rows)


def _curves(groups: Sequence[GroupOutlook]) -> Table:
    windows = [p.window for p in groups[0].curve if p.window in SHOWN]

    def row(group: GroupOutlook) -> tuple[Cell, ...]:
        points = {point.window: point for point in group.curve}
        return (cell(group.group or "all"), *(cell(f"{points[w].tokens_per_step:.2f}") for w in windows))

    heads = columns("Answers", *(f">window {window}" for window in windows))
    return Table("Tokens per step by window", heads, tuple(row(group) for group in groups))


def _thirds(groups: Sequence[GroupOutlook]) -> Table:
    rows = tuple(
        (cell(group.group or "all"), *(cell(f"{share:.0%}") for share in group.thirds)) for group in groups
    )
    heads = columns("Answers", ">First third", ">Middle", ">Last third")
    return Table("Where proposals are right: share of positions", heads, rows)


def _gains(caption: str, gains: Sequence[Gain], window: int) -> Table:
    rows = tuple(
        (cell(gain.id), cell(gain.group), cell(f"{gain.tokens_per_step:.2f}"), cell(str(gain.tokens)))
        for gain in gains
    )
    heads = columns("Prompt", "Kind", ">Tokens per step", ">Tokens")
    return Table(f"{caption}, window {window}", heads, rows)


def _money(forecast: Forecast, best: DraftOutlook, rented: Sequence[Rented]) -> tuple[Section, ...]:
    point = _best(best.mix)

    def row(one: Rented) -> tuple[Cell, ...]:
        steps = (forecast.plain_ms / 1e3,) * 2 if forecast.plain_ms is not None else one.step
        plain = [usd_per_million_tokens(one.usd_per_hour, 1 / step) for step in steps]
        fast = (steps[0] / point.speedup_high, steps[1] / point.speedup_low)
        drafted = [usd_per_million_tokens(one.usd_per_hour, 1 / step) for step in fast]
        return (
            cell(one.instance),
            cell(_span([1e3 * step for step in steps], "ms")),
            cell(_span([1e3 * step for step in fast], "ms")),
            cell(_span(plain, "USD")),
            cell(_span(drafted, "USD")),
            cell(one.source),
        )

    heads = columns(
        "Instance", ">TPOT plain", ">TPOT drafted", ">1M tokens plain", ">1M tokens drafted", "~Price"
    )
    return (
        Section(
            key="money",
            title="What it would cost",
            paragraphs=(
                f"One request in flight, {best.draft} at window {point.window}. TPOT is a band: published"
                " services reach 6% to 46% of the memory roof, and the step's cost is "
                + ("measured." if forecast.costs else "assumed."),
            ),
            tables=(Table("Per instance", heads, tuple(row(rental) for rental in rented)),),
        ),
    )


def _span(values: Sequence[float], unit: str) -> str:
    low, high = min(values), max(values)
    return f"{low:.3g} {unit}" if low == high else f"{low:.3g} to {high:.3g} {unit}"


def _basis(forecast: Forecast) -> Section:
    sampled = forecast.answers < forecast.of_answers
    costs = ", ".join(_cost(forecast, window) for window in forecast.costs)
    assumed = (
        f"each position of the window costs {MODEL_SLOPES[0]:g} to {MODEL_SLOPES[1]:g} plain steps with a"
        " draft model of about a twentieth of the target,"
        f" {LOOK_UP_SLOPES[0]:g} to {LOOK_UP_SLOPES[1]:g} with look-up, as published"
    )
    points = [
        f"{forecast.answers} of {forecast.of_answers} answers, drawn at random to the token budget."
        if sampled
        else f"All {forecast.answers} answers that can be used.",
        (
            f"Token counts agree with the logged ones in {forecast.matched} answers; for"
            f" {forecast.unchecked} none were logged."
        ),
        (
            f"Tokens are known one by one in {forecast.exact}. The text of the others is tokenized again, and"
            " now and then as many other tokens come out."
        ),
        f"Acceptance is of these answers, with step arithmetic {forecast.convention}.",
        f"Cost of a step: {costs}." if costs else f"Cost of a step, not measured: {assumed}.",
        (
            "One request at a time. With more in flight, a step's cost grows faster with the window: specdec"
            " bench with several loads shows where it turns."
        ),
        "A draft that needs the target's hidden states (EAGLE, Medusa, MTP) cannot be forecast from text.",
    ]
    rows = _counts("Layouts", forecast.layouts), _counts("Left out", forecast.left_out)
    return Section(
        key="basis",
        title="What it rests on",
        points=tuple(points),
        tables=tuple(table for table in (*rows, _counts("Noted", forecast.notes)) if table.rows),
    )


def _cost(forecast: Forecast, window: int) -> str:
    band = forecast.cost_bands.get(window)
    spread = f" ({band[0]:.2f} to {band[1]:.2f})" if band else ""
    return f"{forecast.costs[window]:.2f}{spread} plain steps at {window}"


def _counts(caption: str, counts: Mapping[str, int]) -> Table:
    rows = tuple((cell(name), cell(str(count))) for name, count in counts.items())
    return Table(caption, columns("What", ">Entries"), rows)
