"""Pairs of requests that differ in the variant alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log
from statistics import fmean

from specdec.runs.record import RequestRecord


@dataclass(frozen=True, slots=True)
class Pair:
    """The same prompt and repeat on a baseline and on another variant."""

    baseline: RequestRecord
    variant: RequestRecord


def pairs(baseline: Iterable[RequestRecord], variant: Iterable[RequestRecord]) -> tuple[Pair, ...]:
    """Pairs by (test case, prompt, repeat), in the order of the baseline's records; requests without a
    partner are left out.
    """
    partners = {_key(record): record for record in variant}
    return tuple(Pair(record, partners[_key(record)]) for record in baseline if _key(record) in partners)


def _key(record: RequestRecord) -> tuple[str, str, int]:
    return record.test_case, record.prompt, record.repeat


@dataclass(frozen=True, slots=True)
class LogRatio:
    """Logarithm of baseline over variant of one pair.

    Attributes:
        prompt: test case and prompt: the unit of chance.
        block: the block that both requests ran in.
        value: the logarithm.
    """

    prompt: tuple[str, str]
    block: int
    value: float


def log_ratios(
    paired: Iterable[Pair], metric: Callable[[RequestRecord], float | None]
) -> tuple[LogRatio, ...]:
    """Logarithm of baseline over variant, one per pair.

    Repeats of a prompt at temperature 0 decode the same text and are not independent, so a prompt is one
    unit. Prompts of one test case that got the same text from the baseline are one unit too, under the name
    of the first: however often a line is listed, it is one prompt. Pairs in which the metric cannot be told,
    or is not positive, are left out.
    """
    ratios: list[LogRatio] = []
    names: dict[tuple[str, str, int | None], str] = {}
    for pair in paired:
        numerator, denominator = metric(pair.baseline), metric(pair.variant)
        if numerator is None or denominator is None or numerator <= 0 or denominator <= 0:
            continue
        record = pair.baseline
        prompt = record.prompt
        if record.text and record.temperature == 0:
            prompt = names.setdefault((record.test_case, record.text, record.prompt_tokens), prompt)
        ratios.append(LogRatio((record.test_case, prompt), record.block, log(numerator / denominator)))
    return tuple(ratios)


def prompt_means(row: Iterable[LogRatio]) -> list[float]:
    """Mean of each prompt's logarithms, in the order in which prompts appear."""
    values: dict[tuple[str, str], list[float]] = {}
    for pair in row:
        values.setdefault(pair.prompt, []).append(pair.value)
    return [fmean(group) for group in values.values()]
