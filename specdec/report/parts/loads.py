"""Up to which load does it pay, and how much load does each variant carry?"""

from __future__ import annotations

from collections.abc import Iterator

from specdec import plots
from specdec.analysis.load_sentences import in_words, shown
from specdec.analysis.load_verdict import LoadPoint, LoadRow, LoadVerdict, Served
from specdec.plots import Picture
from specdec.report.content import Cell, Section, Table, Text, cell, columns, told
from specdec.report.headline import signed
from specdec.report.numbers import Number, count, decimals, dollars, percent, sentence, times
from specdec.report.parts.view import TONES, View

UNITS = {"in flight": "requests in flight", "per second": "requests per second"}


def sections(view: View) -> Iterator[Section]:
    """Speed over load, and what each service gives and carries; none for a run of one load."""
    loads = view.verdict.loads
    if loads is None:
        return
    yield _speed(view, loads)
    yield _service(view, loads)


def _speed(view: View, loads: LoadVerdict) -> Section:
    texts: list[Text] = [
        "Speculation spends compute to save memory traffic, so it can help at a low load and hurt at a high"
        " one. Each load was visited in turn, ascending and descending, and kept up by further requests until"
        " the last measured one had ended. Between measured loads, each prompt's time per token is taken as"
        " a straight line; outside them nothing is said. A turn is given only between a load at which"
        " speculation is shown to help and one at which it is shown to hurt. What follows this section is"
        f" about the lowest load, {in_words(loads.loads[0], loads.unit)}."
    ]
    return Section(
        "loads",
        "Up to which load does it pay?",
        tuple(texts),
        points=tuple(_said(view, row) for row in loads.rows),
        pictures=tuple(_speed_picture(view, loads, name) for name in _classes(loads)),
        tables=(_speed_table(view, loads),) if view.complete else (),
    )


def _said(view: View, row: LoadRow) -> Text:
    """The row's sentence, with the numbers of its turns traced."""
    said = row.says.partition("turns at ")[0].rstrip("; ")
    if not row.crossings:
        return f"{_name(view, row)}: {sentence(said)}"
    parts: list[str | Number] = [f"{_name(view, row)}: {said[:1].upper()}{said[1:]}; turns at "]
    lines = sorted({n for point in row.points for n in _lines(view, row, point.load)})
    for place, crossing in enumerate(row.crossings):
        key = f"crossing/{row.variant}/{row.prompt_class}/{place}"
        how = "load at which both variants' TPOT, on straight lines between measured loads, is the same"
        parts += [
            ", " if place else "",
            view.trace.number(key, crossing.load, "load", shown(crossing.load), how, lines),
            " (",
            view.trace.number(
                f"{key}/low", crossing.low, "load", shown(crossing.low), f"low end: {how}", lines
            ),
            " to ",
            view.trace.number(
                f"{key}/high", crossing.high, "load", shown(crossing.high), f"high end: {how}", lines
            ),
            ")",
        ]
    return (*parts, ".")


def _classes(loads: LoadVerdict) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.prompt_class for row in loads.rows))


def _speed_picture(view: View, loads: LoadVerdict, prompt_class: str) -> Picture:
    rows = [row for row in loads.rows if row.prompt_class == prompt_class]
    series = [
        plots.Series(
            row.variant,
            view.place(row.variant),
            tuple(
                plots.Point(
                    point.load,
                    point.ratio.value,
                    (point.ratio.interval.low, point.ratio.interval.high) if point.ratio.interval else None,
                )
                for point in row.points
                if point.ratio is not None
            ),
        )
        for row in rows
    ]
    turns = [
        plots.Point(crossing.load, 1.0, across=(crossing.low, crossing.high))
        for row in rows
        for crossing in row.crossings
    ]
    if turns:
        series.append(plots.Series("where it turns", 4, tuple(turns), joined=False))
    return plots.lines(
        f"loads-{prompt_class}",
        f"Speed-up over load: {prompt_class} prompts, with interval",
        plots.Axis(UNITS[loads.unit], log=True, zero=False),
        plots.Axis("times as fast as the baseline", zero=False),
        series,
        limits=[plots.Limit("as fast as the baseline", 1.0)],
    )


def _speed_table(view: View, loads: LoadVerdict) -> Table:
    rows = tuple(
        (
            cell(row.prompt_class),
            cell(row.variant),
            cell(shown(point.load)),
            cell(signed(point.decision), tone=TONES[point.decision]),
            *_ratio(view, row, point),
            cell(_steps(view, row, point)),
            cell(", ".join(point.excluded) or "none"),
        )
        for row in loads.rows
        for point in row.points
    )
    heads = columns(
        "Class",
        "Variant",
        f">{UNITS[loads.unit].capitalize()}",
        ":Verdict",
        ">Speed-up",
        ">Interval",
        ">Tokens per step",
        "~Test cases that do not count",
    )
    return Table("Speed-up by class of prompts and load", heads, rows)


def _ratio(view: View, row: LoadRow, point: LoadPoint) -> tuple[Cell, Cell]:
    ratio = point.ratio
    if ratio is None:
        return cell(None), cell(None)
    key, lines = f"load/{row.variant}/{row.prompt_class}/{shown(point.load)}", _lines(view, row, point.load)
    how = (
        f"geometric mean over {ratio.prompts} prompts of the best baseline / {row.variant}, TPOT, at"
        f" {shown(point.load)}"
    )
    value = view.trace.number(key, ratio.value, "ratio", times(ratio.value), how, lines)
    if ratio.interval is None:
        return cell(value), cell(ratio.no_interval, tone="quiet")
    low, high = view.ends(key, ratio.interval, lines)
    return cell(value), cell(low, " to ", high)


def _steps(view: View, row: LoadRow, point: LoadPoint) -> Number | None:
    if point.tokens_per_step is None:
        return None
    key = f"load/{row.variant}/{row.prompt_class}/{shown(point.load)}/tokens_per_step"
    how = "mean over requests of tokens after the first step over steps"
    lines = _lines(view, row, point.load)
    return view.trace.number(
        key, point.tokens_per_step, "tokens/step", decimals(point.tokens_per_step), how, lines
    )


def _lines(view: View, row: LoadRow, load: float) -> list[int]:
    cases = {m.test_case for m in view.verdict.measurements if m.prompt_class == row.prompt_class}
    return view.trace.at_load(load, cases, row.variant, *view.verdict.baselines)


def _name(view: View, row: LoadRow) -> str:
    return f"{row.variant}, {row.prompt_class}" if view.several else row.prompt_class


def _service(view: View, loads: LoadVerdict) -> Section:
    objective = loads.objective
    texts: list[Text] = [
        "What one user gets against what the whole service gives: a point further up and to the right is"
        " better. Tokens per second of a service are those that came while its measured requests were under"
        " way, including the requests that held the load."
    ]
    if objective is None:
        texts.append(
            "How much load a variant carries depends on the limits that its users need: set them with"
            " --ttft-ms and --tpot-ms, or [objective] in the experiment."
        )
    else:
        texts.append(
            f"Objective: {objective.words()}. Goodput is requests per second that keep it; a variant carries"
            " the largest load up to which the share of its requests keeps it, on a straight line between"
            " measured loads. Intervals resample the prompts, wider for few of them."
        )
    tables = [told(_served_table(view, loads))]
    if loads.capacities:
        tables.append(told(_capacity_table(view, loads)))
    pictures = [_frontier(view, loads)]
    if objective is not None:
        pictures.append(_goodput(view, loads))
    return Section(
        "service",
        "What each service gives under load",
        tuple(texts),
        pictures=tuple(pictures),
        tables=tuple(tables),
    )


def _frontier(view: View, loads: LoadVerdict) -> Picture:
    series = [
        plots.Series(
            variant,
            view.place(variant),
            tuple(
                plots.Point(s.tokens_per_second_user, s.tokens_per_second, label=shown(s.load))
                for s in _of(loads, variant)
                if s.tokens_per_second_user is not None
            ),
        )
        for variant in view.variants
    ]
    return plots.frontier(
        "frontier",
        f"Tokens per second for a user and for the service; labels: {UNITS[loads.unit]}",
        plots.Axis("tokens per second for a user"),
        plots.Axis("tokens per second for the service"),
        series,
    )


def _goodput(view: View, loads: LoadVerdict) -> Picture:
    series = [
        plots.Series(
            variant,
            view.place(variant),
            tuple(plots.Point(s.load, s.goodput) for s in _of(loads, variant) if s.goodput is not None),
        )
        for variant in view.variants
    ]
    return plots.lines(
        "goodput",
        "Goodput over load",
        plots.Axis(UNITS[loads.unit], log=True, zero=False),
        plots.Axis("requests per second that keep the objective"),
        series,
    )


def _of(loads: LoadVerdict, variant: str) -> list[Served]:
    return [s for s in loads.served if s.variant == variant]


def _served_table(view: View, loads: LoadVerdict) -> Table:
    rows = tuple(
        (
            cell(shown(s.load)),
            cell(s.variant),
            cell(_figure(view, s, "tokens_per_second_user", s.tokens_per_second_user, "tokens/s", decimals)),
            cell(_figure(view, s, "tokens_per_second", s.tokens_per_second, "tokens/s", count)),
            cell(_figure(view, s, "kept", s.kept, "share", percent)),
            cell(_figure(view, s, "goodput", s.goodput, "requests/s", decimals)),
            cell(_figure(view, s, "usd_per_million", s.usd_per_million, "USD/1M tokens", dollars)),
            cell(None if s.point is None or s.point.running is None else decimals(s.point.running)),
            cell(None if s.point is None or s.point.waiting is None else decimals(s.point.waiting)),
            cell(_milliseconds(None if s.point is None else s.point.queue_seconds)),
            cell(_milliseconds(None if s.point is None else s.point.prefill_seconds)),
            cell("client late" if s.point is not None and s.point.late else "yes", tone="quiet"),
        )
        for s in sorted(loads.served, key=lambda s: s.load)
    )
    heads = columns(
        f"{UNITS[loads.unit].capitalize()}",
        "Variant",
        ">Tokens/s, user",
        ">Tokens/s, service",
        ">Keep the objective",
        ">Goodput, requests/s",
        ">$ per 1M tokens, share",
        ">Running, server's word",
        ">Waiting",
        ">In queue",
        ">In prefill",
        ":Client in time",
    )
    return Table("Service by load", heads, rows)


def _milliseconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{1000 * seconds:.3g} ms"


_HOW = {
    "tokens_per_second_user": "1 over the median TPOT",
    "tokens_per_second": "output tokens that came in the blocks of this load over their seconds",
    "kept": "share of the requests that kept the objective, failed ones among them",
    "goodput": "that share times the requests per second",
    "usd_per_million": "price of the share per hour over tokens per hour",
}


def _figure(view: View, s: Served, name: str, value: float | None, unit: str, show: object) -> Number | None:
    if value is None or not callable(show):
        return None
    lines = view.trace.at_load(s.load, None, s.variant)
    key = f"service/{name}/{s.variant}/{shown(s.load)}"
    return view.trace.number(key, value, unit, str(show(value)), _HOW[name], lines)


def _capacity_table(view: View, loads: LoadVerdict) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for c in loads.capacities:
        lines = sorted({n for load in loads.loads for n in view.trace.at_load(load, None, c.variant)})
        key = f"capacity/{c.variant}"
        load = ratio = span = ratio_span = usd = None
        if c.load is not None:
            how = "largest load up to which the objective is kept"
            load = view.trace.number(key, c.load, "load", shown(c.load), how, lines)
        if c.low is not None and c.high is not None:
            span = f"{shown(c.low)} to {shown(c.high)}"
        if c.ratio is not None:
            how = "over the first baseline's"
            ratio = view.trace.number(f"{key}/ratio", c.ratio, "ratio", times(c.ratio), how, lines)
        if c.ratio_low is not None and c.ratio_high is not None:
            ratio_span = f"{c.ratio_low:.2f} to {c.ratio_high:.2f}"
        if c.usd_per_million is not None:
            how = "price of the share over tokens, at this load"
            usd = view.trace.number(
                f"{key}/usd", c.usd_per_million, "USD/1M tokens", dollars(c.usd_per_million), how, lines
            )
        misses = cell("misses the objective", tone="bad")
        carried = cell("at least ", load) if c.at_least else cell(load) if load else misses
        rows.append((cell(c.variant), carried, cell(span), cell(ratio), cell(ratio_span), cell(usd)))
    heads = columns("Variant", ":Carries", ">Interval", ">Ratio", ">Its interval", ">$ per 1M tokens, share")
    return Table(f"Largest load within the objective, {UNITS[loads.unit]}", heads, tuple(rows))
