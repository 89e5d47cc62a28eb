"""The answer in two lines: what to do, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec.analysis.load_sentences import short_answer
from specdec.analysis.load_sentences import shown as load_shown
from specdec.analysis.verdict import Comparison, Decision, LoadVerdict, Verdict
from specdec.report.numbers import decimals, sentence, times
from specdec.text import listed

SIGNS: dict[Decision, str] = {"helps": "▲", "hurts": "▼", "no difference": "=", "undecided": "?"}
"""The shape that stands before a decision's word, so that it can be told without colour."""

NAMED = 3
"""Test cases that are named one by one; more are counted, or named by class."""


@dataclass(frozen=True, slots=True)
class Headline:
    """Two short lines.

    Attributes:
        do: what to do.
        sure: by how much, at what confidence, and what is open.
    """

    do: str
    sure: str


def signed(decision: Decision) -> str:
    """A decision's word behind its sign."""
    return f"{SIGNS[decision]} {decision}"


def headline(verdict: Verdict) -> Headline:
    """The headline of a verdict. With several speculative variants it is about the one that helps most."""
    if verdict.status != "complete":
        ended = "failed" if verdict.status == "failed" else f"was {verdict.status}"
        return Headline(
            f"This run is not finished: it {ended}. It has numbers, but no verdict.", _missing(verdict)
        )
    if verdict.loads is not None:
        return Headline(short_answer(verdict.loads), _sure_over_load(verdict.loads))
    rows = [row for row in verdict.comparisons if row.best_baseline]
    if not rows:
        return Headline("There is nothing to compare.", "A baseline and a speculative variant are needed.")
    variants = list(dict.fromkeys(row.variant for row in rows))
    best = max(variants, key=lambda variant: _standing([row for row in rows if row.variant == variant]))
    own = [row for row in rows if row.variant == best]
    name = f"{best}" if len(variants) > 1 else "speculation"
    return Headline(_do(own, name, verdict), _sure(own, verdict))


def _missing(verdict: Verdict) -> str:
    """How far an unfinished run came, and what its report therefore lacks."""
    lacking = "the comparison, every decision, the cost of a token and window advice are missing"
    if verdict.progress is None:
        return sentence(lacking)
    left = f"{verdict.progress.missing} requests and " if verdict.progress.missing else ""
    return f"{sentence(verdict.progress.words())} {sentence(left + lacking)}"


def _standing(rows: Sequence[Comparison]) -> tuple[int, float]:
    helps = [row.tpot.value for row in _counted(rows, "helps") if row.tpot]
    return len(helps) - len(_counted(rows, "hurts")), sum(helps)


def _do(rows: Sequence[Comparison], name: str, verdict: Verdict) -> str:
    helps, hurts = _counted(rows, "helps"), _counted(rows, "hurts")
    if len(helps) == len(rows):
        return f"Use {name}: it is faster on {_everything(rows)}."
    if len(hurts) == len(rows):
        return f"Leave {name} off: it is slower on {_everything(rows)}."
    if helps and hurts:
        return f"Use {name} for {_names(helps, rows)}; leave it off for {_names(hurts, rows)}."
    if helps:
        return f"Use {name} for {_names(helps, rows)}."
    if hurts:
        return f"Leave {name} off for {_names(hurts, rows)}."
    if len(_counted(rows, "no difference")) == len(rows):
        return f"Use it or not: {name} makes no difference of {100 * verdict.margin:.3g}% or more."
    if _counted(rows, "undecided"):
        return f"Undecided: this run cannot tell whether {name} helps."
    return "No verdict: no speed of this run counts."


def _sure(rows: Sequence[Comparison], verdict: Verdict) -> str:
    parts: list[str] = []
    for decision, words in (("helps", "as fast where it helps"), ("hurts", "where it hurts")):
        ratios = [row.tpot for row in _counted(rows, decision) if row.tpot]
        if len(ratios) == 1 and ratios[0].interval:
            ends = ratios[0].interval
            span = f"interval {decimals(ends.low)} to {decimals(ends.high)}"
            parts.append(f"{times(ratios[0].value)} {words} ({span})")
        elif ratios:
            low, high = min(ratio.value for ratio in ratios), max(ratio.value for ratio in ratios)
            parts.append(f"{times(low)} to {times(high)} {words}")
    parts.append(f"all intervals hold together with {100 * verdict.level:.3g}% confidence")
    if verdict.self_check is not None and verdict.self_check.floor is not None:
        parts.append(f"the noise floor is {verdict.self_check.floor - 1:.1%}")
    rest = [row for row in rows if not row.counts]
    if rest:
        parts.append(f"{len(rest)} of {len(rows)} rows {'does' if len(rest) == 1 else 'do'} not count")
    return " ".join(map(sentence, parts))


def _sure_over_load(loads: LoadVerdict) -> str:
    turns = [crossing for row in loads.rows for crossing in row.crossings]
    parts: list[str] = []
    if len(turns) == 1:
        turn = turns[0]
        parts.append(
            f"it turns at {load_shown(turn.load)}"
            f" (interval {load_shown(turn.low)} to {load_shown(turn.high)})"
        )
    parts.append(
        f"the intervals of all classes and loads hold together with {100 * loads.level:.3g}% confidence"
    )
    return " ".join(map(sentence, parts))


def _counted(rows: Sequence[Comparison], decision: str) -> list[Comparison]:
    return [row for row in rows if row.counts and row.decision == decision]


def _everything(rows: Sequence[Comparison]) -> str:
    return rows[0].test_case if len(rows) == 1 else f"all {len(rows)} test cases"


def _names(chosen: Sequence[Comparison], rows: Sequence[Comparison]) -> str:
    """The test cases by name where they are few, else by class where they are whole classes."""
    if len(chosen) <= NAMED:
        return listed([row.test_case for row in chosen])
    classes = list(dict.fromkeys(row.prompt_class for row in chosen))
    whole_classes = sum(row.prompt_class in classes for row in rows) == len(chosen)
    if whole_classes and len(classes) <= NAMED:
        return f"{listed(classes)} prompts"
    return f"{len(chosen)} of {len(rows)} test cases"
