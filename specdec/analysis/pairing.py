"""Pairs of requests that differ in the variant alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log
from statistics import fmean

from specdec.runs.record import RequestRecord


@dataclass(frozen=True, slots=True)
class Pair:
    """The same prompt and repeat on a baseline and on another variant.

    Attributes:
        baseline, variant: the two requests.
        weight: how much it counts beside the other pairs of its prompt.
        phases: of the two requests, in a run that serves one variant after the other; else None.
    """

    baseline: RequestRecord
    variant: RequestRecord
    weight: float = 1.0
    phases: tuple[int, int] | None = None


def pairs(baseline: Iterable[RequestRecord], variant: Iterable[RequestRecord]) -> tuple[Pair, ...]:
    """Pairs by (test case, prompt, repeat), in the order of the baseline's records; requests without a
    partner are left out.
    """
    partners = {_key(record): record for record in variant}
    return tuple(Pair(record, partners[_key(record)]) for record in baseline if _key(record) in partners)


def bracketed(baseline: Iterable[RequestRecord], variant: Iterable[RequestRecord]) -> tuple[Pair, ...]:
    """Pairs of a run that serves one variant after the other: each request of the variant with the same
    prompt in the baseline's phase before it and in that after it.

    The two are weighted by their distance in time, so that a speed which changes steadily cancels. A request
    that does not stand between two of the baseline is left out.
    """
    sent: dict[tuple[str, str], dict[int, list[RequestRecord]]] = {}
    for record in sorted(baseline, key=lambda record: record.repeat):
        if record.phase is not None:
            phases = sent.setdefault((record.test_case, record.prompt), {})
            phases.setdefault(record.phase, []).append(record)
    found: list[Pair] = []
    for record in variant:
        phases = sent.get((record.test_case, record.prompt), {})
        before = [phase for phase in phases if record.phase is not None and phase < record.phase]
        after = [phase for phase in phases if record.phase is not None and phase > record.phase]
        if record.phase is None or not before or not after:
            continue
        first, last = phases[max(before)][0], phases[min(after)][0]
        start, end = _middle(first), _middle(last)
        late = min(1.0, max(0.0, (_middle(record) - start) / (end - start))) if end > start else 0.5
        for partner, weight, phase in ((first, 1 - late, max(before)), (last, late, min(after))):
            found.append(Pair(partner, record, weight, (phase, record.phase)))
    return tuple(found)


def _middle(record: RequestRecord) -> float:
    """Time half-way through a request, on the run's clock."""
    return record.sent + (record.closed or 0.0) / 2


def _key(record: RequestRecord) -> tuple[str, str, int]:
    return record.test_case, record.prompt, record.repeat


@dataclass(frozen=True, slots=True)
class LogRatio:
    """Logarithm of baseline over variant of one pair.

    Attributes:
        prompt: test case and prompt: the unit of chance.
        block: the block that both requests ran in.
        value: the logarithm.
        weight, phases: see ``Pair``.
    """

    prompt: tuple[str, str]
    block: int
    value: float
    weight: float = 1.0
    phases: tuple[int, int] | None = None


_WHOLE = 0.999
"""Sum of the weights of a request's pairs, but for rounding."""


def timed_pairs(
    paired: Iterable[Pair], metric: Callable[[RequestRecord], float | None]
) -> list[tuple[Pair, float, float]]:
    """The pairs whose metric can be told and is positive on both sides, with the two values.

    In a run of phases a request needs both of its baselines: with one alone its ratio would hold the drift.
    """
    timed = [
        (pair, first, second)
        for pair in paired
        if (first := metric(pair.baseline)) is not None
        and (second := metric(pair.variant)) is not None
        and first > 0
        and second > 0
    ]
    weighed: dict[int, float] = {}
    for pair, _, _ in timed:
        weighed[id(pair.variant)] = weighed.get(id(pair.variant), 0.0) + pair.weight
    return [each for each in timed if each[0].phases is None or weighed[id(each[0].variant)] > _WHOLE]


def log_ratios(
    paired: Iterable[Pair], metric: Callable[[RequestRecord], float | None]
) -> tuple[LogRatio, ...]:
    """Logarithm of baseline over variant, one per pair of ``timed_pairs``.

    Repeats of a prompt at temperature 0 decode the same text and are not independent, so a prompt is one
    unit. Prompts of one test case that got the same text from the baseline are one unit too, under the name
    of the first: however often a line is listed, it is one prompt.
    """
    ratios: list[LogRatio] = []
    names: dict[tuple[str, str, int | None], str] = {}
    for pair, numerator, denominator in timed_pairs(paired, metric):
        record = pair.baseline
        prompt = record.prompt
        if record.text and record.temperature == 0:
            prompt = names.setdefault((record.test_case, record.text, record.prompt_tokens), prompt)
        value = log(numerator / denominator)
        ratios.append(LogRatio((record.test_case, prompt), record.block, value, pair.weight, pair.phases))
    return tuple(ratios)


def prompt_means(row: Iterable[LogRatio]) -> list[float]:
    """Weighted mean of each prompt's logarithms, in the order in which prompts appear."""
    values: dict[tuple[str, str], list[LogRatio]] = {}
    for pair in row:
        values.setdefault(pair.prompt, []).append(pair)
    return [
        fmean([pair.value for pair in group], [pair.weight for pair in group]) for group in values.values()
    ]
