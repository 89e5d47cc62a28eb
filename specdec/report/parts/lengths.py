"""Does the length of the prompt matter?"""

from __future__ import annotations

from statistics import median

from specdec.analysis.verdict import Comparison
from specdec.report.content import Cell, Section, Table, cell, columns
from specdec.report.headline import signed
from specdec.report.numbers import count
from specdec.report.parts.view import TONES, View

APART = 2.0
"""Factor between the lengths of a class's test cases from which they are shown by length."""


def section(view: View) -> Section | None:
    """The rows of each class by length of prompt; None where no class has several lengths."""
    if not view.complete:
        return None
    rows = [c for c in view.verdict.comparisons if c.best_baseline and c.variant in view.verdict.speculative]
    tokens = {c.test_case: _tokens(view, c) for c in rows}
    shown: list[Comparison] = []
    for prompt_class in dict.fromkeys(c.prompt_class for c in rows):
        own = [c for c in rows if c.prompt_class == prompt_class and tokens[c.test_case] is not None]
        lengths = [tokens[c.test_case] or 0.0 for c in own]
        if lengths and max(lengths) >= APART * min(lengths):
            shown += sorted(own, key=lambda c: tokens[c.test_case] or 0.0)
    if not shown:
        return None
    text = (
        "A longer prompt makes each step read a longer cache, for the target and for a draft model, so"
        " what pays for a short prompt may not pay for a long one. Lengths are by the server's own count."
    )
    heads = columns("Class", ">Prompt tokens", "Test case", "Variant", ":Verdict", ">Speed-up", ">Interval")
    table = Table(
        "Speed-up by length of the prompt", heads, tuple(_row(view, c, tokens[c.test_case]) for c in shown)
    )
    return Section("lengths", "Does the length of the prompt matter?", (text,), tables=(table,))


def _row(view: View, c: Comparison, tokens: float | None) -> tuple[Cell, ...]:
    lines = view.trace.measured(c.test_case, c.variant, c.against)
    length = None
    if tokens is not None:
        key = f"prompt_tokens/{c.variant}/{c.test_case}"
        how = "median over requests of the prompt's tokens"
        length = view.trace.number(key, tokens, "tokens", count(tokens), how, lines)
    return (
        cell(c.prompt_class),
        cell(length),
        cell(c.test_case),
        cell(c.variant),
        cell(signed(c.decision), tone=TONES[c.decision]),
        cell(view.ratio("tpot", c)),
        view.interval(c),
    )


def _tokens(view: View, c: Comparison) -> float | None:
    records = (view.run.records[line - 1] for line in view.trace.measured(c.test_case, c.variant, c.against))
    known = [record.prompt_tokens for record in records if record.prompt_tokens]
    return median(known) if known else None
