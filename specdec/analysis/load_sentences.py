"""The verdict over load in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdec.analysis.load_verdict import Capacity, LoadRow, LoadUnit, LoadVerdict
from specdec.runs.point import Point
from specdec.text import listed

_UNITS = {"in flight": "requests in flight", "per second": "requests per second"}
WAITING = 0.5
"""Mean requests that a server keeps waiting from which a point measures its queue too."""


def shown(load: float) -> str:
    """A load as a person writes it."""
    return f"{load:.3g}"


def in_words(load: float, unit: LoadUnit) -> str:
    """A load with its unit: ``1 request in flight``, ``4 requests in flight``."""
    words = _UNITS[unit]
    return f"{shown(load)} {words if load != 1 else words.replace('requests', 'request')}"


def row_sentence(row: LoadRow, unit: LoadUnit) -> str:
    """One class of one variant, for someone who reads only it."""
    loads = [point.load for point in row.points]
    decided_points = [point for point in row.points if point.decision in ("helps", "hurts")]
    helps, hurts = row.helps_up_to, row.hurts_from
    if not decided_points:
        same = all(point.decision == "no difference" for point in row.points)
        return "no difference that matters at any load" if same else "undecided at every load"
    if len(row.crossings) > 1 or (helps is not None and hurts is not None and helps > hurts):
        return f"helps and hurts in turn; {_crossings(row)}"
    words: list[str] = []
    if helps is not None:
        words.append(
            f"helps up to {in_words(helps, unit)}" + ("" if helps < loads[-1] else ", the highest measured")
        )
    if hurts is not None:
        words.append(
            f"hurts from {shown(hurts)} on" if helps is not None else f"hurts from {in_words(hurts, unit)} on"
        )
    if row.crossings:
        words.append(_crossings(row))
    return "; ".join(words)


def answer(verdict: LoadVerdict) -> str:
    """The answer in a sentence or two per variant."""
    texts: list[str] = []
    variants = list(dict.fromkeys(row.variant for row in verdict.rows))
    for variant in variants:
        rows = [row for row in verdict.rows if row.variant == variant]
        lead = f"{variant}: " if len(variants) > 1 else ""
        if len({(row.helps_up_to, row.hurts_from, len(row.crossings)) for row in rows}) == 1:
            texts.append(_capital(lead + _advice(rows, verdict)))
        else:
            parts = [f"for {row.prompt_class} prompts {_advice([row], verdict)}" for row in rows]
            texts.append(_capital(lead + "; ".join(part.rstrip(".") for part in parts) + "."))
    texts.extend(
        _capacity(verdict, capacity) for capacity in verdict.capacities if capacity.ratio is not None
    )
    return " ".join(texts)


def short_answer(verdict: LoadVerdict) -> str:
    """What to do, in one line; with several speculative variants about the first."""
    variants = list(dict.fromkeys(row.variant for row in verdict.rows))
    if not variants:
        return "There is nothing to compare."
    groups: dict[float | None, list[str]] = {}
    for row in verdict.rows:
        if row.variant == variants[0]:
            groups.setdefault(row.helps_up_to, []).append(row.prompt_class)
    name = variants[0] if len(variants) > 1 else "speculation"
    if len(groups) == 1:
        (load,) = groups
        if load is None:
            return _without_help([row for row in verdict.rows if row.variant == variants[0]], name)
        if load == verdict.loads[-1] and len(verdict.loads) > 1:
            return f"Use {name} at every measured load, up to {in_words(load, verdict.unit)}."
        return f"Use {name} up to {in_words(load, verdict.unit)}."
    helps = sorted((load, classes) for load, classes in groups.items() if load is not None)
    parts = [
        f"up to {shown(load) if place else in_words(load, verdict.unit)} for {listed(classes)}"
        for place, (load, classes) in enumerate(helps)
    ]
    off = f"; leave it off for {listed(groups[None])}" if None in groups else ""
    return f"Use {name} {', '.join(parts)}{off}."


def _without_help(rows: Sequence[LoadRow], name: str) -> str:
    """What to do where nothing is shown to help."""
    decisions = {point.decision for row in rows for point in row.points}
    if "hurts" in decisions:
        return f"Leave {name} off: it is shown to help at no load."
    if decisions == {"no difference"}:
        return f"Use it or not: {name} makes no difference at any measured load."
    return f"Undecided: this run cannot tell whether {name} helps at any load."


def _advice(rows: Sequence[LoadRow], verdict: LoadVerdict) -> str:
    row, unit = rows[0], verdict.unit
    helps, hurts = row.helps_up_to, row.hurts_from
    highest = verdict.loads[-1]
    if len(row.crossings) > 1 or (helps is not None and hurts is not None and helps > hurts):
        return f"speculation helps and hurts in turn as the load grows ({_crossings(row)})."
    if helps is None and hurts is None:
        span = f"{shown(verdict.loads[0])} to {in_words(highest, unit)}"
        return f"whether it helps cannot be told at any load from {span}; add prompts or repeats."
    if hurts is None:
        above = "" if helps == highest else f"; above, nothing is decided up to {shown(highest)}"
        return f"use speculation up to {in_words(helps or 0, unit)}{above}."
    cost = _cost(rows, hurts)
    if helps is None:
        return f"leave speculation off from {in_words(hurts, unit)} on, where it costs you {cost}."
    crossing = ""
    if len(rows) == 1 and row.crossings:
        turn = row.crossings[0]
        crossing = f" (it turns at {shown(turn.load)}, {shown(turn.low)} to {shown(turn.high)})"
    up_to = f"use speculation up to {in_words(helps, unit)}{crossing}"
    return f"{up_to}; from {shown(hurts)} on it costs you {cost}."


def _cost(rows: Sequence[LoadRow], load: float) -> str:
    """How much slower the variant is at a load."""
    losses = [
        100 * (1 - point.ratio.value)
        for row in rows
        for point in row.points
        if point.load == load and point.ratio is not None
    ]
    low, high = f"{min(losses):.0f}%", f"{max(losses):.0f}%"
    return low if low == high else f"{min(losses):.0f} to {high}"


def _crossings(row: LoadRow) -> str:
    if not row.crossings:
        return "where it turns is not known"
    turns = ", ".join(
        f"{shown(c.load)} ({shown(c.low)} to {shown(c.high)})" + ("" if c.downward else ", upwards")
        for c in row.crossings
    )
    return f"turns at {turns}"


def _capacity(verdict: LoadVerdict, capacity: Capacity) -> str:
    objective = verdict.objective
    assert objective is not None
    assert capacity.ratio is not None
    span = (
        f" ({capacity.ratio_low:.2f} to {capacity.ratio_high:.2f})"
        if capacity.ratio_low is not None and capacity.ratio_high is not None
        else ""
    )
    return (
        f"Within the objective ({objective.words()}) {capacity.variant} carries"
        f" {in_words(capacity.load or 0, verdict.unit)}, {capacity.ratio:.2f} times the baseline's"
        f" load{span}."
    )


def caveats(
    verdict: LoadVerdict, points: Sequence[Point], acceptance: Sequence[tuple[str, float, float]]
) -> tuple[str, ...]:
    """What limits the answer. ``acceptance``: (variant, load, tokens per step over those at the lowest load)
    where these differ.
    """
    return tuple(_caveats(verdict, points, acceptance))


def _caveats(
    verdict: LoadVerdict, points: Sequence[Point], acceptance: Sequence[tuple[str, float, float]]
) -> Iterator[str]:
    late = _named([point for point in points if point.late])
    if late:
        yield (
            f"The client itself was late at {late}: its times there are not the server's alone. Use a machine"
            " with more free processor time, or several."
        )
    cut = _named([point for point in points if point.end == "time"])
    if cut:
        yield f"Not finished within the time per point: {cut}. What was measured until then counts."
    saturated = sorted({point.load for point in points if point.end == "saturated"})
    if saturated:
        yield (
            f"Not measured: {', '.join(map(shown, saturated))} {_UNITS[verdict.unit]}, since no variant's"
            " throughput grew any more below."
        )
    settled = _named([point for point in points if point.end == "settled"])
    if settled:
        yield f"Visited no more, since the visits agreed to within 1%: {settled}."
    queued = _named([point for point in points if (point.waiting or 0.0) > WAITING])
    if queued:
        yield f"The server kept requests waiting at {queued}: TTFT there includes its queue."
    for variant, load, ratio in acceptance:
        yield (
            f"{variant} gave {ratio:.2f} times the tokens per step at {shown(load)} {_UNITS[verdict.unit]}."
            " Acceptance depends on the text alone, so the server decodes differently under load."
        )
    for capacity in verdict.capacities:
        if capacity.load is None:
            yield f"{capacity.variant} misses the objective at the lowest load measured."
        elif capacity.at_least:
            yield f"{capacity.variant} keeps the objective at every load measured: it may carry more."


def _named(points: Sequence[Point]) -> str:
    loads: dict[str, list[float]] = {}
    for point in points:
        loads.setdefault(point.variant, []).append(point.load)
    return "; ".join(
        f"{variant} {', '.join(shown(load) for load in sorted(variant_loads))}"
        for variant, variant_loads in loads.items()
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
