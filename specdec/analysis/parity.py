"""Do both variants say the same? Greedy decoding with a draft must give the target's own text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specdec.analysis.pairing import Pair
from specdec.analysis.verdict import Difference, Parity, ParityState
from specdec.runs.record import RequestRecord

NEAR_TIE = 0.05
"""Gap in log-probability between the two best tokens below which bf16 rounding in another order of summation
may swap them: bf16 keeps 8 bits, so logits around 10 are 0.03 to 0.06 apart."""

SHOWN = 60


def parity(paired: Sequence[Pair], baseline: Iterable[RequestRecord]) -> Parity:
    """Compares the texts of pairs, and the baseline's repeats with each other.

    The rule: every pair equal, ``equal``. Else, if every first difference is a near-tie, or the baseline's
    own repeats differ at least as often as the pairs do, ``nondeterminism``. Else ``differs``: the speed row
    is marked and does not count.

    Args:
        paired: pairs of one test case.
        baseline: measured records of the baseline on the same test case.
    """
    greedy = [pair for pair in paired if pair.baseline.temperature == 0 and pair.variant.temperature == 0]
    found = tuple(
        sorted(
            (_difference(pair) for pair in greedy if not _same(pair)),
            key=lambda difference: difference.position,
        )
    )
    self_equal, self_total = _against_itself(baseline)
    equal = len(greedy) - len(found)
    return Parity(
        state=_state(found, len(greedy), self_total - self_equal, self_total),
        equal=equal,
        total=len(greedy),
        self_equal=self_equal,
        self_total=self_total,
        differences=found,
        near_tie_gap=NEAR_TIE,
    )


def _state(found: Sequence[Difference], total: int, self_different: int, self_total: int) -> ParityState:
    if total == 0:
        return "not judged"
    if not found:
        return "equal"
    noisy = self_different > 0 and self_different / self_total >= len(found) / total
    return "nondeterminism" if noisy or all(difference.near_tie for difference in found) else "differs"


def _same(pair: Pair) -> bool:
    return pair.baseline.text == pair.variant.text


def _against_itself(records: Iterable[RequestRecord]) -> tuple[int, int]:
    first: dict[str, str] = {}
    equal = total = 0
    for record in sorted(
        (record for record in records if record.temperature == 0), key=lambda record: record.repeat
    ):
        if record.prompt not in first:
            first[record.prompt] = record.text
            continue
        total += 1
        equal += record.text == first[record.prompt]
    return equal, total


def _difference(pair: Pair) -> Difference:
    ours, theirs = pair.baseline.text, pair.variant.text
    position = next(
        (at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )
    return Difference(
        prompt=pair.baseline.prompt,
        repeat=pair.baseline.repeat,
        position=position,
        length=len(ours),
        baseline=ours[position : position + SHOWN],
        variant=theirs[position : position + SHOWN],
        near_tie=_near_tie(pair.baseline.near_tie, pair.variant.near_tie),
    )


def _near_tie(ours: Sequence[float] | None, theirs: Sequence[float] | None) -> bool | None:
    """Whether the token at which the outputs part was nearly a tie.

    Until they part, and at the token where they do, both variants look at the same context, so the gaps agree
    but for rounding; after it they do not. The token before the first disagreement is the one they parted at.
    """
    if not ours or not theirs:
        return None
    for position, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if abs(a - b) > NEAR_TIE:
            return position > 0 and min(ours[position - 1], theirs[position - 1]) < NEAR_TIE
    last = min(len(ours), len(theirs)) - 1
    return min(ours[last], theirs[last]) < NEAR_TIE
