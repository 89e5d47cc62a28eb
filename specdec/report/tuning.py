"""Window advice as lines of plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdec.analysis.advice import WindowAdvice
from specdec.analysis.sweep_plan import SweepStep
from specdec.analysis.verdict import Verdict


def lines(verdict: Verdict, plan: Sequence[SweepStep]) -> Iterator[str]:
    """All of ``specdec tune``, within 100 columns."""
    for mix in (advice for advice in verdict.windows if advice.test_case is None):
        group = [advice for advice in verdict.windows if advice.variants == mix.variants]
        yield (
            f"{mix.draft or 'draft'}, measured at window {', '.join(map(str, mix.measured_windows))}, step"
            f" arithmetic {mix.convention}"
        )
        yield ""
        yield (
            f"{'test case':<16}{'a':>6}{'c':>7}{'off tpot':>10}  {'window':>6}  {'speed-up':>8}  {'sure':>5} "
            f" {'next':>4}  pays from a"
        )
        for advice in group:
            yield _row(advice)
        yield ""
        yield f"Mix: {mix.says}."
        yield from _curve(mix)
    if len(verdict.drafts) > 1:
        yield from _drafts(verdict)
    if plan:
        yield from _plan(plan)


def _row(advice: WindowAdvice) -> str:
    window = "off" if advice.recommended is None else str(advice.recommended)
    floor = (
        "never" if advice.break_even is None else f"{advice.break_even:.2f} at {advice.measured_windows[0]}"
    )
    confirm = "" if advice.confirm is None else str(advice.confirm)
    return (
        f"{(advice.test_case or 'mix')[:15]:<16}{advice.acceptance:>6.2f}"
        f"{advice.draft_cost:>7.3f}{1000 * advice.baseline_tpot:>7.1f}"
        f" ms  {window:>6}  {advice.predicted_speedup:>7.2f}x  {advice.confidence:>5.0%}  {confirm:>4} "
        f" {floor}"
    )


def _curve(mix: WindowAdvice) -> Iterator[str]:
    yield ""
    yield (
        f"{'window':>6}  {'tokens/step':>11}  {'step cost':>9}  {'tpot':>9}  {'5% to 95%':>18} "
        f" {'measured':>9}  {'speed-up':>8}"
    )
    for point in mix.curve:
        measured = "" if point.measured_tpot is None else f"{1000 * point.measured_tpot:.2f} ms"
        ends = f"{1000 * point.low:.2f} to {1000 * point.high:.2f} ms"
        yield (
            f"{point.window:>6}  {point.tokens_per_step:>11.2f}  {point.step_cost:>9.2f} "
            f" {1000 * point.tpot:>6.2f} ms  {ends:>18}  {measured:>9}  {point.speedup:>7.2f}x"
        )
    yield ""


def _drafts(verdict: Verdict) -> Iterator[str]:
    yield f"{'draft':<28}{'a':>6}{'c':>7}  {'window':>6}  {'speed-up':>8}  a to match the first"
    for row in verdict.drafts:
        window = "off" if row.window is None else str(row.window)
        match = (
            ""
            if row is verdict.drafts[0]
            else "none does"
            if row.acceptance_to_match is None
            else f"{row.acceptance_to_match:.2f}"
        )
        yield (
            f"{row.draft[:27]:<28}{row.acceptance:>6.2f}{row.draft_cost:>7.3f}  {window:>6} "
            f" {row.speedup:>7.2f}x  {match}"
        )
    yield ""


def _plan(plan: Sequence[SweepStep]) -> Iterator[str]:
    yield "Sweep, most telling first; stop when the next range lies below the best measured speed-up:"
    for step in plan:
        money = "" if step.usd is None else f", {step.usd:.0f} USD"
        yield (
            f"  window {step.window:>2}: {step.low:.2f} to {step.high:.2f}x expected; {step.node_hours:.1f}"
            f" node-hours so far{money}"
        )
