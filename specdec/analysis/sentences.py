"""The verdict in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from specdec.analysis.cost import by_price
from specdec.analysis.seams import seam_caveats
from specdec.analysis.significance import MARGIN
from specdec.analysis.verdict import Comparison, Overall, PairedRatio, ReasonCode, Verdict
from specdec.runs.phases import moved
from specdec.runs.seam import Seam

FEW_PROMPTS = 4

NAMED_CHANGES = 3
"""Facts of servers that changed between phases which a sentence names; the manifest has all."""

WITHHELD: dict[ReasonCode, str] = {
    "unfinished": "the run did not end",
    "seam": "the ratio changed where the run was interrupted",
    "same server": "both names are one server",
    "other model": "the two serve different models",
    "other template": "their chat templates differ",
    "no records": "one side has no request",
    "failures": "too many requests failed",
    "unlike pairs": "the pairs differ in more than the variant",
    "no pairs": "no prompt was answered on both sides",
    "no time per token": "there is no time per token",
    "buffered": "something on the way holds tokens back",
    "unread": "no text was read",
    "texts differ": "the texts differ",
    "loops": "the answers are loops",
    "other distribution": "the two sample from different distributions",
}
"""Why rows do not count, in the overall sentence. Codes that never withhold have no words here."""


def comparison_sentence(row: Comparison) -> str:
    """One row, for someone who reads only it."""
    said = "; ".join(reason.says for reason in row.reasons)
    if row.tpot is None:
        return said or "no pair of finished requests to compare"
    texts = _parity_words(row)
    parts = [_speed_words(row, row.tpot), _sum_words(row), *([texts] if texts else []), said]
    end = "" if row.counts else "; so this row does not count"
    return "; ".join(part for part in parts if part) + end


def _speed_words(row: Comparison, ratio: PairedRatio) -> str:
    if row.decision == "helps":
        small = "" if ratio.value >= 1 + MARGIN else f", less than the {MARGIN:.0%} that matter"
        return f"{ratio.value:.2f} times as fast{small}"
    if row.decision == "hurts":
        return f"slower: {ratio.value:.2f} times the baseline's speed"
    if row.decision == "no difference":
        return "no difference that matters"
    if ratio.unknown == "blocks":
        blocks = f"{ratio.blocks} {'block' if ratio.blocks == 1 else 'blocks'}"
        return f"undecided: {ratio.pairs} pairs in {blocks} cannot show what blocks share; more repeats can"
    if ratio.unknown == "phases":
        return "undecided: too few phases to show how phases differ by chance; more repeats can"
    if ratio.interval is None:
        more = f", {ratio.more_prompts} more can" if ratio.more_prompts else ""
        return f"undecided: {ratio.prompts} {_prompts(ratio.prompts)} cannot show a spread{more}"
    if ratio.more_repeats:
        repeats = "repeat" if ratio.more_repeats == 1 else "repeats"
        return f"undecided; about {ratio.more_repeats} more {repeats} would settle it"
    more = (
        f"; about {ratio.more_prompts} more {_prompts(ratio.more_prompts)} would settle it"
        if ratio.more_prompts
        else ""
    )
    return f"undecided{more}"


def contrary(user: PairedRatio | None, fleet: PairedRatio | None) -> bool:
    """Whether prompts gain on average while the time in sum grows, or the other way round."""
    return user is not None and fleet is not None and (user.value - 1) * (fleet.value - 1) < 0


def _sum_words(row: Comparison) -> str:
    if row.decision not in ("helps", "hurts") or row.fleet is None or not contrary(row.tpot, row.fleet):
        return ""
    return f"but {1 / row.fleet.value:.2f} times the baseline's time in total"


def _repeats(count: int) -> str:
    return "repeat" if count == 1 else "repeats"


def _prompts(count: int | None) -> str:
    return "prompt" if count == 1 else "prompts"


def _parity_words(row: Comparison) -> str:
    parity = row.parity
    if parity.total == 0:
        return ""
    if not parity.differences:
        return f"same text in all {parity.total} pairs"
    first = parity.differences[0]
    where = (
        f"texts part in {parity.total - parity.equal} of {parity.total} pairs, first at character"
        f" {first.position} of {first.prompt}"
    )
    return f"{where}, {parity.because}" if parity.because else where


def overall_sentence(verdict: Verdict) -> str:
    """The answer in a sentence or two: where to use speculation, where not, and what is left open."""
    if verdict.status != "complete":
        return f"No verdict: this run is {verdict.status}."
    if not verdict.baselines or not verdict.speculative:
        return "No verdict: a baseline and a speculative variant are needed."
    several = len(verdict.speculative) > 1
    tuned = len(verdict.baselines) > 1
    totals = {total.variant: total for total in verdict.overall}
    texts: list[str] = []
    for variant in verdict.speculative:
        rows = [row for row in verdict.comparisons if row.variant == variant and row.best_baseline]
        lead = f"{variant}: " if several else ""
        texts.append(_capital(lead + _variant_sentence(rows, totals.get(variant))))
    end = " Speed is against the best baseline of each test case." if tuned else ""
    return " ".join(texts) + end


def _variant_sentence(rows: Sequence[Comparison], total: Overall | None) -> str:
    counted = [row for row in rows if row.counts]
    use = [row for row in counted if row.worthwhile]
    contrary_rows = [
        row
        for row in counted
        if row.decision == "helps" and not row.worthwhile and contrary(row.tpot, row.fleet)
    ]
    little = [
        row
        for row in counted
        if row.decision == "helps" and not row.worthwhile and not contrary(row.tpot, row.fleet)
    ]
    hurts = [row for row in counted if row.decision == "hurts"]
    same = [row for row in counted if row.decision == "no difference"]
    undecided = [row for row in counted if row.decision == "undecided"]
    parts: list[str] = []
    if use:
        parts.append(f"use speculation for {_names(use)} ({_range(use)} times as fast)")
    if contrary_rows:
        parts.append(
            f"most prompts of {_names(contrary_rows)} gain ({_range(contrary_rows)} times as fast), but all"
            " together take longer, so the bill rises"
        )
    if little:
        parts.append(
            f"{_names(little)} gains too little to matter ({_range(little)} times as fast, the margin is"
            f" {MARGIN:.0%})"
        )
    if hurts:
        parts.append(f"leave it off for {_names(hurts)} ({_range(hurts)} times the baseline's speed)")
    if same:
        parts.append(f"it makes no difference that matters for {_names(same)}")
    if undecided:
        hint = _what_would_settle(undecided)
        parts.append(f"whether it helps {_names(undecided)} cannot be told{hint}")
    parts.extend(_withheld(row for row in rows if not row.counts))
    if not parts:
        return "nothing to compare."
    bill = ""
    if total is not None and total.tpot and total.fleet and contrary(total.tpot, total.fleet):
        bill = (
            f" Over all prompts alike it is {total.tpot.value:.2f} times as fast per prompt and takes"
            f" {1 / total.fleet.value:.2f} times the baseline's time in total, which is what you pay for."
        )
    return "; ".join(parts) + "." + bill


def _what_would_settle(undecided: Sequence[Comparison]) -> str:
    ratios = [row.tpot for row in undecided if row.tpot]
    blind = [row for row in undecided if row.tpot and row.tpot.unknown in ("blocks", "phases")]
    if blind:
        return f" (this design cannot decide {_names(blind)}: add repeats)"
    repeats = max((ratio.more_repeats or 0 for ratio in ratios), default=0)
    if repeats:
        return f" (up to {repeats} more {_repeats(repeats)} would settle it)"
    # Fewer than a few would be told to be too few again.
    more = max(
        (max(ratio.more_prompts, FEW_PROMPTS - ratio.prompts) for ratio in ratios if ratio.more_prompts),
        default=0,
    )
    return f" (up to {more} more {_prompts(more)} per test case would settle it)" if more else ""


def _withheld(rows: Iterable[Comparison]) -> Iterator[str]:
    """Rows that do not count, those of one reason together."""
    groups: dict[str, list[Comparison]] = {}
    for row in rows:
        first = next(reason for reason in row.reasons if reason.withholds)
        groups.setdefault(WITHHELD[first.code], []).append(row)
    for words, group in groups.items():
        yield f"{_names(group)} cannot count, because {words}"


def _names(rows: Sequence[Comparison]) -> str:
    names = [row.label for row in rows]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _range(rows: Sequence[Comparison]) -> str:
    low, high = (f"{bound(row.tpot.value for row in rows if row.tpot):.2f}" for bound in (min, max))
    return low if low == high else f"{low} to {high}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def caveats(
    verdict: Verdict,
    *,
    local: bool,
    problem: str | None,
    merged: Sequence[str] = (),
    seams: Sequence[Seam] = (),
) -> tuple[str, ...]:
    """What limits the verdict, the gravest first.

    Args:
        verdict: everything else.
        local: whether the run was on this machine.
        problem: what ended a run that is not complete.
        merged: variants whose server joins steps.
        seams: where the run was interrupted and resumed.
    """
    said: list[str] = []
    if verdict.status != "complete":
        said.append(
            f"The run is {verdict.status}: {problem or 'no reason was recorded'}. Its numbers are shown,"
            " nothing is decided."
        )
    if merged:
        said.append(
            f"Steps of {', '.join(merged)} are larger than the window allows: the server joins them, so there"
            " is no acceptance and no window advice."
        )
    if verdict.self_check is not None and verdict.self_check.differs:
        said.append(f"{_capital(verdict.self_check.says)}.")
    return (
        *said,
        *seam_caveats(seams),
        *_about_design(verdict),
        *_about_phases(verdict),
        *_about_texts(verdict),
        *_about_numbers(verdict, merged),
        *_about_money(verdict, local),
    )


def _about_design(verdict: Verdict) -> Iterator[str]:
    blind = sorted(
        {row.test_case for row in verdict.comparisons if row.tpot and row.tpot.unknown == "blocks"}
    )
    if blind:
        yield (
            f"This design cannot decide {', '.join(blind)}: requests ran together, in too few blocks to show"
            " what a block shares. Add repeats."
        )


def _about_phases(verdict: Verdict) -> Iterator[str]:
    """What a design of phases can tell, with the baseline's own change as the measure."""
    if not verdict.phases:
        return
    own = [level for level in verdict.phases if level.variant == verdict.baselines[0]]
    values = [level.against_first for level in own if level.against_first is not None]
    order = ", ".join(level.variant for level in verdict.phases)
    change = max((abs(value - 1) for value in values), default=0.0)
    between = verdict.baselines[0]
    yield (
        f"One variant was served after the other, in the phases {order}. {between} itself changed by up to"
        f" {change:.1%} between its phases. A steady drift cancels; what is left of its change counts as"
        " chance, and a change that comes and goes with the phases cannot be told from the draft's effect."
    )
    if len(values) <= 2:
        yield (
            f"With one phase between two of {between}, drift and chance cannot be told apart: only a"
            f" difference many times as large as {between}'s own change is decided. Use benchmark.repeats = 2"
            " or more."
        )
    changes = [
        f"{fact.fact} of {fact.variant} was {fact.first or 'not known'} in its first phase and"
        f" {fact.now or 'not known'} in phase {fact.phase + 1}"
        for fact in moved(verdict.environment)
    ]
    if changes:
        more = f", and {len(changes) - NAMED_CHANGES} more" if len(changes) > NAMED_CHANGES else ""
        yield (
            "What the servers ran on changed between phases, so that phases differ in more than time:"
            f" {'; '.join(changes[:NAMED_CHANGES])}{more}."
        )


def _about_texts(verdict: Verdict) -> Iterator[str]:
    marked = sorted({row.test_case for row in verdict.comparisons if row.parity.state == "differs"})
    if marked:
        yield (
            f"Texts differ without an explanation on {', '.join(marked)}: these speeds do not count. Follow"
            " them with specdec rejoin to tell a near-tie from a defect."
        )
    tested = {(test.variant, test.against, test.temperature) for test in verdict.sampled}
    if any(
        row.temperature and (row.variant, row.against, row.temperature) not in tested
        for row in verdict.comparisons
    ):
        yield (
            "Texts are not compared above temperature 0, where they cannot agree: that both draw from"
            " one distribution is not checked. specdec sampling checks it."
        )
    if any(row.parity.self_total == 0 and row.parity.state != "not judged" for row in verdict.comparisons):
        yield "Each prompt was sent once, so no repeats show whether the baseline gives the same text twice."


def _about_numbers(verdict: Verdict, merged: Sequence[str]) -> Iterator[str]:
    failed = sum(m.failures for m in verdict.measurements)
    if failed:
        yield f"{failed} {'request' if failed == 1 else 'requests'} failed; counted, and in no metric."
    few = sorted(
        {row.test_case for row in verdict.comparisons if row.tpot and row.tpot.prompts < FEW_PROMPTS}
    )
    if few:
        yield f"{_few(few)}."
    unread = sorted(
        {m.variant for m in verdict.measurements if m.acceptance is None and m.tpot is not None} - set(merged)
    )
    if unread:
        yield (
            f"Steps of {', '.join(unread)} cannot be read from the stream, so there is no acceptance and no"
            " window advice."
        )
    taken: dict[str, float] = {}
    for m in verdict.measurements:
        if m.acceptance is not None and m.variant in verdict.speculative:
            taken[m.variant] = max(taken.get(m.variant, 0), m.acceptance.tokens_per_step)
    idle = [name for name, most in taken.items() if most <= 1]
    if idle:
        yield (
            f"No step of {', '.join(idle)} emitted more than one token: its speculation is off, or no"
            " proposal was ever accepted. Look at the server's log and its speculation settings."
        )
    if any(len(advice.measured_windows) == 1 for advice in verdict.windows):
        yield (
            "The window curve is drawn from one measured window; a second one separates fixed from growing"
            " step cost."
        )


_PRICE = "give bench --usd-per-hour, or set cost.node_usd_per_hour in the experiment"


def _about_money(verdict: Verdict, local: bool) -> Iterator[str]:
    names = [*verdict.baselines, *verdict.speculative]
    priced = dict(verdict.prices)
    missing = [name for name in names if name not in priced]
    seen = [price for price, _ in by_price(verdict.prices) if price.purchase != "experiment"]
    if local:
        yield (
            "Measured on this machine, not on the accelerator: the method carries over, the figures do not,"
            " and no price applies."
        )
    elif missing:
        whose = "this node" if len(missing) == len(names) else f"the server of {', '.join(missing)}"
        yield f"No price is known for {whose}; {_PRICE}."
    for price in () if local else seen:
        where = f"{price.purchase} in {price.region} ({price.date})"
        yield f"Costs use a price seen for {where}, not on your bill; {_PRICE}."


def too_few(prompts: Mapping[str, int]) -> str | None:
    """What to say of test cases with too few prompts for an interval, or None.

    Args:
        prompts: number of different prompts by test case.
    """
    few = sorted(case for case, count in prompts.items() if count < FEW_PROMPTS)
    return _few(few) if few else None


def _few(test_cases: Iterable[str]) -> str:
    return f"Too few prompts on {', '.join(test_cases)}: use at least {FEW_PROMPTS} per test case, better 8"
