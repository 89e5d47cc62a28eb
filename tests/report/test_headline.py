"""The two lines that everybody reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdec.analysis.judge import judge
from specdec.analysis.progress import Progress
from specdec.analysis.verdict import Comparison, Decision, Verdict
from specdec.report.headline import headline
from specdec.runs.folder import read_run
from tests.report.sample import CASES, RUN, records, write_run


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    run = read_run(write_run(tmp_path_factory.mktemp("headline") / RUN, records(cases=CASES[:6], tokens=30)))
    return judge(run.manifest, run.records)


def _with(verdict: Verdict, *decisions: Decision, counts: bool = True, variant: str = "") -> Verdict:
    rows = tuple(
        replace(row, decision=decision, counts=counts, variant=variant or row.variant, best_baseline=True)
        for row, decision in zip(verdict.comparisons, decisions, strict=False)
    )
    return replace(verdict, comparisons=rows)


@pytest.mark.parametrize(
    ("decisions", "do"),
    [
        (("helps",) * 6, "Use speculation: it is faster on all 6 test cases."),
        (("hurts",), "Leave speculation off: it is slower on repeat-line."),
        (("helps", "hurts"), "Use speculation for repeat-line; leave it off for numbers."),
        (("helps", "helps", "undecided"), "Use speculation for repeat-line and numbers."),
        (("undecided", "hurts"), "Leave speculation off for numbers."),
        (("no difference",) * 3, "Use it or not: speculation makes no difference of 5% or more."),
        (("undecided", "no difference"), "Undecided: this run cannot tell whether speculation helps."),
        (
            ("helps",) * 4 + ("hurts",) * 2,
            "Use speculation for structured and code prompts; leave it off for extract-fields and essay.",
        ),
        (("undecided",) + ("helps",) * 4, "Use speculation for 4 of 5 test cases."),
    ],
)
def test_what_to_do(verdict: Verdict, decisions: tuple[Decision, ...], do: str) -> None:
    assert headline(_with(verdict, *decisions)).do == do


def test_how_sure(verdict: Verdict) -> None:
    single = headline(_with(verdict, "helps", "undecided")).sure
    ratio = verdict.comparisons[0].tpot
    assert ratio is not None
    assert ratio.interval is not None
    span = f"(interval {ratio.interval.low:.2f} to {ratio.interval.high:.2f})"
    assert single == (
        f"{ratio.value:.2f}x as fast where it helps {span}. All intervals hold together with 98% confidence."
    )
    several = headline(_with(verdict, "helps", "helps")).sure
    values = sorted(row.tpot.value for row in verdict.comparisons[:2] if row.tpot)
    assert several.startswith(f"{values[0]:.2f}x to {values[1]:.2f}x as fast where it helps. ")


def test_what_does_not_count_carries_nothing(verdict: Verdict) -> None:
    top = headline(_with(verdict, "helps", "hurts", counts=False))
    assert top.do == "No verdict: no speed of this run counts."
    assert top.sure == "All intervals hold together with 98% confidence. 2 of 2 rows do not count."


def test_of_several_variants_the_one_that_helps_most(verdict: Verdict) -> None:
    rows: list[Comparison] = []
    for variant, decisions in (("window-4", ("helps", "hurts")), ("window-7", ("helps", "helps"))):
        rows += _with(verdict, *decisions, variant=variant).comparisons  # pyright: ignore[reportArgumentType]
    assert headline(replace(verdict, comparisons=tuple(rows))).do == (
        "Use window-7: it is faster on all 2 test cases."
    )


def test_no_verdict_without_a_whole_run(verdict: Verdict) -> None:
    top = headline(replace(verdict, status="interrupted"))
    assert top.do == "This run is not finished: it was interrupted. It has numbers, but no verdict."
    assert "every decision" in top.sure
    told = headline(replace(verdict, status="failed", progress=Progress(ended=31, planned=96))).sure
    assert told.startswith("31 of 96 requests have ended (32%). 65 requests and the comparison,")
    unknown = headline(replace(verdict, status="failed", progress=Progress(ended=31, planned=None))).sure
    assert unknown.startswith("31 requests have ended. The comparison,")
    assert headline(replace(verdict, comparisons=())).do == "There is nothing to compare."
