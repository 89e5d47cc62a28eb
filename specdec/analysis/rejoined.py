"""Judges walks along the baseline: the same decoder, or another one.

Decided by gaps where log-probabilities are real. Where they are not, by the rate of swaps against the
baseline's own with itself, which has a blind spot: a decoder that takes one wrong token in 200 swaps as often
as bf16 rounding does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specdec.analysis.distributions import chi_square_quantile
from specdec.analysis.pairing import Pair
from specdec.analysis.parity import NEAR_TIE, sooner
from specdec.analysis.verdict import Interval, Parity, ParityState
from specdec.rejoin.store import Followed
from specdec.rejoin.walk import FINE_TIE, Swap, Walk

ENOUGH = 1000
"""Tokens that a verdict is to rest on. One wrong token in 200 goes unseen in 1,000 with a chance under 1%."""

MOST_GAP = 1.0
"""Sum of gaps per 1,000 tokens above which the other is no right decoder, in nats. Between formats of one
model the sum was 0.07 at most, on one Trainium2 chip 0.5; with Q8_0 weights it was 2.7 (facts of both:
docs/verdict.md)."""

ROUNDINGS = 5
"""Times the reference's own rounding that a gap may be. A tie of bf16 logits of 8 to 16 is two steps of 1/16
wide, and a change is seen in one place only, where it may be small by chance."""

RIGHT_RATE = 0.008
"""Swaps per token of right decoders, at most: 0.005 in bf16, with room. Only rates that are surely above it
tell anything."""

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Rejoined:
    """The result of the walks of one row.

    Attributes:
        state: ``same``, ``swaps`` or ``differs``.
        tokens, swaps: compared, and different.
        rate: swaps per token, exact Poisson interval.
        largest_gap, gap_sum: of the swaps that have one, nats; None where none has.
        by_gaps: whether gaps decided.
        says: the result and what it cannot show, as part of a sentence.
    """

    state: ParityState
    tokens: int
    swaps: int
    rate: Interval
    largest_gap: float | None
    gap_sum: float | None
    by_gaps: bool
    says: str


def rejoined(walks: Sequence[Walk], own: Sequence[Walk] = (), *, scorer: bool = False) -> Rejoined:
    """Judges the walks of one row.

    Args:
        walks: of the other's texts along the reference, texts that are the baseline's own among them.
        own: of the baseline's texts: along itself from other starts, which is what another batch does to it,
            or along the scorer.
        scorer: whether the reference is a scorer. The baseline must be one decoder with it.
    """
    if scorer and own and rejoined(own).state == "differs":
        return replace(
            rejoined(walks), state="not judged", says="the scorer and the baseline are not one model"
        )
    tokens = sum(walk.tokens for walk in walks)
    swaps = [swap for walk in walks for swap in walk.swaps]
    gaps = [swap.gap for swap in swaps if swap.gap is not None]
    by_gaps = bool(gaps) and len(gaps) >= 0.8 * len(swaps)
    rate = poisson_rate(len(swaps), tokens)
    state, why = _decide(tokens, swaps, rate, gaps if by_gaps else None, own)
    head = (
        f"{len(swaps)} swaps in {tokens} tokens followed" if swaps else f"no swap in {tokens} tokens followed"
    )
    short = f"; fewer than {ENOUGH} tokens, so a rare fault may be missed" if tokens < ENOUGH else ""
    return Rejoined(
        state=state,
        tokens=tokens,
        swaps=len(swaps),
        rate=rate,
        largest_gap=max(gaps, default=None),
        gap_sum=sum(gaps) if gaps else None,
        by_gaps=by_gaps,
        says=f"{head}{why}{short}",
    )


def _decide(
    tokens: int, parted: Sequence[Swap], rate: Interval, gaps: Sequence[float] | None, own: Sequence[Walk]
) -> tuple[ParityState, str]:
    swaps = len(parted)
    if not tokens:
        return "not judged", ""
    if not swaps:
        return "same", ""
    if gaps is not None:
        if beyond := [swap for swap in parted if swap.gap is not None and swap.gap > tie_limit(swap)]:
            return "differs", f", {_beyond(max(beyond, key=lambda swap: swap.gap or 0.0))}"
        if 1000 * sum(gaps) > MOST_GAP * max(tokens, ENOUGH):
            return "differs", f", gaps of {1000 * sum(gaps) / tokens:.1f} per 1,000 tokens in log-probability"
        if rate.low > RIGHT_RATE:
            return "differs", f", {1000 * swaps / tokens:.0f} per 1,000, more than rounding makes"
        return "swaps", f", each at a near-tie (largest gap {max(gaps):.2f})"
    blind = "; without log-probabilities one wrong token in 200 would not be seen"
    own_tokens, own_swaps = sum(walk.tokens for walk in own), sum(len(walk.swaps) for walk in own)
    if own_swaps and sooner(swaps, tokens, own_swaps, own_tokens):
        return "differs", f", more than the baseline has with itself ({own_swaps} in {own_tokens})"
    if rate.low > RIGHT_RATE and not own_swaps:
        return "differs", f", {1000 * swaps / tokens:.0f} per 1,000, more than rounding makes"
    return "swaps", f", as rounding makes{blind}"


def tie_limit(swap: Swap) -> float:
    """Gap up to which a swap is put down to rounding. Where the reference's log-probabilities are fine, and
    the same when it reads what it decoded, right decoders are closer together than in bf16.
    """
    if swap.rounding is None:
        return NEAR_TIE
    return min(NEAR_TIE, max(FINE_TIE, ROUNDINGS * swap.rounding))


def _beyond(swap: Swap) -> str:
    limit = tie_limit(swap)
    words = f"a gap of {swap.gap:.2f} in log-probability, above {limit:.2g}"
    if limit == NEAR_TIE or swap.rounding is None:
        return words
    repeated = max(swap.rounding, 0.001)
    return f"{words}, since the reference repeats its own log-probabilities to within {repeated:.1g} there"


def poisson_rate(count: int, exposure: int, level: float = LEVEL) -> Interval:
    """Rate with its exact interval (Garwood, Biometrika 28, 1936)."""
    if not exposure:
        return Interval(0.0, float("inf"), level)
    low = chi_square_quantile(2 * count, (1 - level) / 2) / 2 if count else 0.0
    high = chi_square_quantile(2 * count + 2, (1 + level) / 2) / 2
    return Interval(low / exposure, high / exposure, level)


def with_rejoined(parity: Parity, pairs: Sequence[Pair], followed: Sequence[Followed]) -> Parity:
    """The parity of a row, with the texts that were followed taken into account.

    Nothing changes unless every differing text was followed. Texts that are equal count as followed without a
    swap, each once, since the baseline decoded them itself.

    Args:
        parity: without it.
        pairs: of the row.
        followed: of its test case, on one reference.
    """
    by_text = {(each.prompt, each.repeat): each.walk for each in followed if each.variant != each.against}
    own = [each.walk for each in followed if each.variant == each.against]
    texts: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        if pair.variant.temperature == 0 and pair.variant.text and pair.baseline.text:
            texts.setdefault((pair.variant.prompt, pair.variant.text), []).append(pair)
    walks: list[Walk] = []
    for alike in texts.values():
        if any(pair.baseline.text == pair.variant.text for pair in alike):
            walks.append(Walk(alike[0].variant.output_tokens or 0, ()))
            continue
        keys = [(pair.variant.prompt, pair.variant.repeat) for pair in alike]
        known = [by_text[key] for key in keys if key in by_text]
        if not known:
            return parity
        walks.append(known[0])
    result = rejoined(walks, own, scorer=any(each.scorer for each in followed))
    return replace(
        parity,
        state=result.state,
        because=result.says,
        followed=result.tokens,
        swaps=result.swaps,
        rate=result.rate,
        largest_gap=result.largest_gap,
    )
