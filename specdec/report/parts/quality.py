"""Does each variant answer tasks rightly as often as the baseline?"""

from __future__ import annotations

from collections.abc import Sequence

from specdec.analysis.quality import QualityTest
from specdec.report.content import Section, Table, cell, columns
from specdec.report.numbers import sentence


def section(tests: Sequence[QualityTest]) -> Section | None:
    """A row for each variant and set of tasks; nothing where no task was asked."""
    if not tests:
        return None
    rows = tuple(
        (
            cell(test.variant),
            cell(test.source),
            cell(f"{test.right[1]} of {test.tasks}"),
            cell(f"{test.right[0]} of {test.tasks}"),
            cell(f"{test.only[1]} and {test.only[0]}"),
            cell(f"{100 * test.loss:.1f} ({100 * test.interval.low:.1f} to {100 * test.interval.high:.1f})"),
            cell(test.state, tone="bad" if test.state == "worse" else "plain"),
        )
        for test in tests
    )
    heads = columns(
        "Variant",
        "Tasks",
        ">Right",
        ">Baseline right",
        ">Right alone",
        ">Loss in points (95%)",
        "Result",
    )
    text = (
        "Tasks whose answers are checked exactly, one answer each, from quality.jsonl or lm-eval. The loss is"
        " the baseline's share of right answers less the variant's, paired by task."
    )
    return Section(
        "quality",
        "Are the answers right?",
        (text, *(sentence(test.says) for test in tests)),
        tables=(Table("Right answers", heads, rows),),
    )
