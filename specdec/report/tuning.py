"""Window advice as lines of plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdec import console
from specdec.analysis.advice import DraftRow, WindowAdvice, WindowPoint
from specdec.analysis.cost import usd_at
from specdec.analysis.load_verdict import LoadWindow, WindowsOverLoad
from specdec.analysis.sweep_plan import SweepStep
from specdec.analysis.verdict import Verdict
from specdec.report.numbers import dollars
from specdec.text import listed


def lines(verdict: Verdict, plan: Sequence[SweepStep]) -> Iterator[str]:
    """All of ``specdec tune``."""
    for mix in (advice for advice in verdict.windows if advice.test_case is None):
        group = [advice for advice in verdict.windows if advice.variants == mix.variants]
        yield (
            f"{mix.draft or 'draft'}, measured at window {', '.join(map(str, mix.measured_windows))}, step"
            f" arithmetic {mix.convention}"
        )
        yield ""
        yield console.table(_ADVICE, [_row(advice) for advice in group])
        yield ""
        yield f"Mix: {mix.says}."
        yield ""
        yield from _money(verdict, mix)
        yield console.table(_CURVE, [_point(point) for point in mix.curve])
        yield ""
    for row in verdict.loads.windows if verdict.loads else ():
        yield from _over_load(row)
    if len(verdict.drafts) > 1:
        yield console.table(_DRAFTS, [_draft(row, verdict.drafts[0]) for row in verdict.drafts])
        yield ""
    if verdict.windows or (verdict.loads and verdict.loads.windows):
        yield _LEGEND
        yield ""
    if plan:
        yield from _plan(plan)


def _money(verdict: Verdict, mix: WindowAdvice) -> Iterator[str]:
    """What a million output tokens cost without speculation and at the recommended window."""
    off, best = usd_at(verdict, mix, None), usd_at(verdict, mix, mix.recommended)
    parts = [] if off is None else [f"{dollars(off)} without speculation"]
    if mix.recommended is not None and best is not None:
        how = "measured" if mix.recommended == mix.measured_windows[0] else "predicted"
        parts.append(f"{dollars(best)} at window {mix.recommended} ({how})")
    if parts:
        yield f"A million output tokens cost {' and '.join(parts)}, at this run's load."
        yield ""


_LEGEND = """a: chance that a proposal is kept. c: cost of one more window position; like step cost, in plain
steps. off TPOT: time per token without speculation. sure: share of draws in which this choice is
within 3% of the best. next: the window to measure next. 5% to 95%: over other prompts of the kind
and shapes of the step's cost. docs/window.md explains the arithmetic."""

_ADVICE = [
    console.Column("test case"),
    *(
        console.Column(title, right=True)
        for title in ("a", "c", "off TPOT", "window", "speed-up", "sure", "next")
    ),
    console.Column("pays from a"),
]
_CURVE = [
    console.Column(title, right=True)
    for title in ("window", "tokens/step", "step cost", "TPOT", "5% to 95%", "measured", "speed-up")
]
_DRAFTS = [
    console.Column("draft"),
    *(console.Column(title, right=True) for title in ("a", "c", "window", "speed-up")),
    console.Column("a to match the first"),
]


_LOADS = [
    console.Column(title, right=True)
    for title in ("in flight", "off TPOT", "window", "speed-up", "5% to 95%", "sure", "measured")
]


def _over_load(advice: WindowsOverLoad) -> Iterator[str]:
    roof = "and the roofline of model and devices" if advice.roofline else "without a roofline"
    yield (
        f"{advice.draft or 'draft'} over load, from window"
        f" {listed([str(window) for window in advice.measured_windows])} at"
        f" {listed([f'{load:g}' for load in advice.fitted])} in flight, {roof}"
    )
    yield ""
    yield console.table(_LOADS, [_load(row) for row in advice.rows])
    yield ""
    yield f"Over load: {advice.says}."
    yield ""


def _load(row: LoadWindow) -> list[str]:
    return [
        f"{row.load:g}",
        f"{1000 * row.baseline_tpot:.1f} ms",
        "off" if row.window is None else str(row.window),
        f"{row.speedup:.2f}x",
        f"{row.low:.2f} to {row.high:.2f}x",
        f"{row.confidence:.0%}",
        "yes" if row.measured else "",
    ]


def _row(advice: WindowAdvice) -> list[str]:
    pays = (
        "never" if advice.break_even is None else f"{advice.break_even:.2f} at {advice.measured_windows[0]}"
    )
    return [
        advice.test_case or "mix",
        f"{advice.acceptance:.2f}",
        f"{advice.draft_cost:.3f}",
        f"{1000 * advice.baseline_tpot:.1f} ms",
        "off" if advice.recommended is None else str(advice.recommended),
        f"{advice.predicted_speedup:.2f}x",
        f"{advice.confidence:.0%}",
        "" if advice.confirm is None else str(advice.confirm),
        pays,
    ]


def _point(point: WindowPoint) -> list[str]:
    return [
        str(point.window),
        f"{point.tokens_per_step:.2f}",
        f"{point.step_cost:.2f}",
        f"{1000 * point.tpot:.2f} ms",
        f"{1000 * point.low:.2f} to {1000 * point.high:.2f} ms",
        "" if point.measured_tpot is None else f"{1000 * point.measured_tpot:.2f} ms",
        f"{point.speedup:.2f}x",
    ]


def _draft(row: DraftRow, first: DraftRow) -> list[str]:
    match = "none does" if row.acceptance_to_match is None else f"{row.acceptance_to_match:.2f}"
    return [
        row.draft,
        f"{row.acceptance:.2f}",
        f"{row.draft_cost:.3f}",
        "off" if row.window is None else str(row.window),
        f"{row.speedup:.2f}x",
        "" if row is first else match,
    ]


def _plan(plan: Sequence[SweepStep]) -> Iterator[str]:
    yield "Sweep, most telling first; stop when the next range lies below the best measured speed-up:"
    for step in plan:
        money = "" if step.usd is None else f", {step.usd:.0f} USD"
        yield (
            f"  window {step.window:>2}: {step.low:.2f} to {step.high:.2f}x expected; {step.node_hours:.1f}"
            f" node-hours so far{money}"
        )
