"""The verdict in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specdec.analysis.verdict import Comparison, Verdict

FEW_PROMPTS = 4


def comparison_sentence(row: Comparison) -> str:
    """One row, for someone who reads only it."""
    ratio = row.tpot
    if ratio is None:
        return "no pair of finished requests to compare"
    if row.decision == "helps":
        text = f"{ratio.value:.2f} times as fast"
    elif row.decision == "hurts":
        text = f"slower: {ratio.value:.2f} times the baseline's speed"
    elif row.decision == "no difference":
        text = "no significant difference"
    elif ratio.unknown == "blocks":
        text = (
            f"undecided: {ratio.pairs} pairs in {ratio.blocks} {'block' if ratio.blocks == 1 else 'blocks'}"
            " cannot show what blocks share; more repeats can"
        )
    elif ratio.interval is None:
        text = (
            f"undecided: {ratio.prompts} {_prompts(ratio.prompts)} cannot show a spread, {ratio.more_prompts}"
            " more can"
        )
    else:
        more = (
            f"; about {ratio.more_prompts} more {_prompts(ratio.more_prompts)} would settle it"
            if ratio.more_prompts
            else ""
        )
        text = f"no significant difference, undecided{more}"
    return f"{text}; {_parity_words(row)}"


def _prompts(count: int | None) -> str:
    return "prompt" if count == 1 else "prompts"


def _parity_words(row: Comparison) -> str:
    parity = row.parity
    if parity.state == "not judged":
        return "texts not compared"
    if parity.state == "equal":
        return f"same text in all {parity.total} pairs"
    first = parity.differences[0]
    where = (
        f"texts differ in {parity.total - parity.equal} of {parity.total} pairs, first at character"
        f" {first.position} of {first.prompt}"
    )
    if parity.state == "nondeterminism":
        return f"{where}; explained by nondeterminism"
    return f"{where}; unexplained, so the speed does not count"


def overall_sentence(verdict: Verdict) -> str:
    """The answer in a sentence or two: where to use speculation, where not, and what is left open."""
    if verdict.status != "complete":
        return f"No verdict: this run is {verdict.status}."
    if not verdict.baselines or not verdict.speculative:
        return "No verdict: a baseline and a speculative variant are needed."
    several = len(verdict.speculative) > 1
    tuned = len(verdict.baselines) > 1
    texts: list[str] = []
    for variant in verdict.speculative:
        rows = [row for row in verdict.comparisons if row.variant == variant and row.best_baseline]
        lead = f"{variant}: " if several else ""
        texts.append(_capital(lead + _variant_sentence(rows)))
    end = " Speed is against the best baseline of each test case." if tuned else ""
    return " ".join(texts) + end


def _variant_sentence(rows: Sequence[Comparison]) -> str:
    counted = [row for row in rows if row.counts]
    helps = [row for row in counted if row.decision == "helps"]
    hurts = [row for row in counted if row.decision == "hurts"]
    same = [row for row in counted if row.decision == "no difference"]
    undecided = [row for row in counted if row.decision == "undecided"]
    parts: list[str] = []
    if helps:
        parts.append(f"use speculation for {_names(helps)} ({_range(helps)} times as fast)")
    if hurts:
        parts.append(f"leave it off for {_names(hurts)} ({_range(hurts)} times the baseline's speed)")
    if same:
        parts.append(f"it makes no significant difference for {_names(same)}")
    if undecided:
        more = max((row.tpot.more_prompts or 0 for row in undecided if row.tpot), default=0)
        hint = f" (up to {more} more {_prompts(more)} per test case would settle it)" if more else ""
        parts.append(f"no significant difference is shown for {_names(undecided)}{hint}")
    marked = [row for row in rows if not row.counts]
    if marked:
        parts.append(f"{_names(marked)} cannot count, because texts differ or requests failed")
    if not helps and not hurts and not parts:
        return "nothing to compare."
    return "; ".join(parts) + "."


def _names(rows: Sequence[Comparison]) -> str:
    names = [row.test_case for row in rows]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _range(rows: Sequence[Comparison]) -> str:
    low, high = (f"{bound(row.tpot.value for row in rows if row.tpot):.2f}" for bound in (min, max))
    return low if low == high else f"{low} to {high}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def caveats(
    verdict: Verdict, *, local: bool, problem: str | None, one_block: Sequence[str] = ()
) -> tuple[str, ...]:
    """What limits the verdict, the gravest first. ``one_block``: test cases whose requests of a variant all
    ran at one time.
    """
    found: list[str] = []
    if verdict.status != "complete":
        found.append(
            f"The run is {verdict.status}: {problem or 'no reason was recorded'}. Its numbers are shown,"
            " nothing is decided."
        )
    if one_block:
        found.append(
            f"Each variant had all requests of {', '.join(one_block)} at one time: what disturbed that time"
            " is in the ratio and not in its interval. Ask for at least two repeats."
        )
    return (*found, *_about_texts(verdict), *_about_numbers(verdict), *_about_money(verdict, local))


def _about_texts(verdict: Verdict) -> Iterator[str]:
    marked = sorted({row.test_case for row in verdict.comparisons if row.parity.state == "differs"})
    if marked:
        yield (
            f"Texts differ without an explanation on {', '.join(marked)}: these speeds do not count. Repeat"
            " with log-probabilities, or with more repeats of the baseline, to tell a near-tie from a"
            " defect."
        )
    if any(row.parity.state == "not judged" for row in verdict.comparisons):
        yield "Texts were not compared where the temperature is above 0: equal output is then not expected."
    if any(row.parity.self_total == 0 and row.parity.state != "not judged" for row in verdict.comparisons):
        yield "Each prompt was sent once, so the baseline could not be compared with itself."


def _about_numbers(verdict: Verdict) -> Iterator[str]:
    failed = sum(m.failures for m in verdict.measurements)
    if failed:
        yield f"{failed} {'request' if failed == 1 else 'requests'} failed; counted, and in no metric."
    few = sorted(
        {row.test_case for row in verdict.comparisons if row.tpot and row.tpot.prompts < FEW_PROMPTS}
    )
    if few:
        yield f"Too few prompts on {', '.join(few)}: use at least {FEW_PROMPTS} per test case, better 8."
    unread = sorted({m.variant for m in verdict.measurements if m.acceptance is None and m.tpot is not None})
    if unread:
        yield (
            f"Steps of {', '.join(unread)} cannot be told from the stream, so there is no acceptance and no"
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


def _about_money(verdict: Verdict, local: bool) -> Iterator[str]:
    price = verdict.price
    if local:
        yield (
            "Measured on this machine, not on the accelerator: the method carries over, the figures do not,"
            " and no price applies."
        )
    elif price is None:
        yield "No price is known for this node; set cost.node_usd_per_hour."
    elif price.purchase != "experiment":
        seen = f"{price.purchase} in {price.region} ({price.date})"
        yield f"Money rests on a price seen for {seen}, not on your bill; set cost.node_usd_per_hour."
