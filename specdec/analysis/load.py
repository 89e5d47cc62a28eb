"""Up to which load does it pay? The rows of every load read together, crossings between them, and what each
service carries within the objective.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, log
from statistics import fmean, median
from typing import TYPE_CHECKING

from specdec.analysis.capacity import (
    carried,
    interval,
    quantile,
    requests_per_second,
    resampled_strains,
    strains_of,
)
from specdec.analysis.cost import usd_per_million_tokens
from specdec.analysis.crossing import crossings
from specdec.analysis.load_sentences import answer, caveats, row_sentence
from specdec.analysis.load_verdict import Capacity, LoadPoint, LoadRow, LoadVerdict, Served
from specdec.analysis.moderation import common_spread
from specdec.analysis.pairing import LogRatio, Pair, log_ratios
from specdec.analysis.self_check import settled
from specdec.analysis.significance import JOINT_LEVEL, ReadTogether, decide, paired_ratio, row_level
from specdec.metrics.objective import Objective, objective_of
from specdec.metrics.system_throughput import system_throughput
from specdec.metrics.tokens_per_step import TOKENS_PER_STEP
from specdec.metrics.tpot import TPOT

if TYPE_CHECKING:
    from specdec.analysis.judge import RunJudge
    from specdec.analysis.rows import RowSource
    from specdec.analysis.verdict import PairedRatio
    from specdec.runs.record import RequestRecord

Prompt = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Part:
    """What one test case gives to a row at one load: its pairs' ratios, and each prompt's times."""

    test_case: str
    group: tuple[str, str]
    ratios: tuple[LogRatio, ...]
    times: dict[Prompt, tuple[float, float]]
    counts: bool


def read_together(judges: Mapping[float, RunJudge]) -> ReadTogether:
    """What the rows of all loads know of each other, and the level at which all of them hold.

    The same prompts are asked at every load, so that a second load tells nothing new of how prompts differ:
    that spread is learnt from the rows of the lowest load alone.
    """
    rows = [
        [((row.variant, row.against), log_ratios(row.alike, TPOT.of)) for row in judge.rows]
        for judge in judges.values()
    ]
    known = ReadTogether.of([pair for of_load in rows for pair in of_load])
    return replace(known, common=common_spread([row for _, row in rows[0]]))


def judge_loads(
    judges: Mapping[float, RunJudge], known: ReadTogether, records: Sequence[RequestRecord]
) -> LoadVerdict:
    """The verdict over load.

    Args:
        judges: one per load, ascending.
        known: see ``read_together``.
        records: of the run's exact lane, unmeasured ones that kept a load up among them.
    """
    return _Loads(judges, known, records).verdict()


class _Loads:
    def __init__(
        self, judges: Mapping[float, RunJudge], known: ReadTogether, records: Sequence[RequestRecord]
    ) -> None:
        self.judges = judges
        self.known = known
        self.loads = tuple(judges)
        self.first = judges[self.loads[0]]
        self.records = records
        self.objective = objective_of(self.first.manifest.configuration)
        self.complete = self.first.manifest.status == "complete"

    def verdict(self) -> LoadVerdict:
        rows = tuple(
            self.row(variant, prompt_class)
            for variant in self.first.speculative
            for prompt_class in dict.fromkeys(self.first.classes.values())
        )
        served = tuple(
            self.served(variant, load) for variant in self.first.manifest.variants for load in self.loads
        )
        verdict = LoadVerdict(
            unit="in flight" if all(record.rate is None for record in self.records) else "per second",
            loads=self.loads,
            level=JOINT_LEVEL,
            rows=rows,
            served=served,
            objective=self.objective,
            capacities=self.capacities(served, self.objective) if self.objective else (),
            sentence="",
            caveats=(),
        )
        verdict = replace(
            verdict, rows=tuple(replace(row, says=row_sentence(row, verdict.unit)) for row in verdict.rows)
        )
        said = caveats(verdict, self.first.manifest.points, self.changed_acceptance())
        return replace(verdict, sentence=answer(verdict) if self.complete else "", caveats=said)

    def row(self, variant: str, prompt_class: str) -> LoadRow:
        parts = {load: self.parts(variant, prompt_class, load) for load in self.loads}

        @cache
        def at(load: float) -> PairedRatio | None:
            return self.ratio_at(load, parts)

        points = tuple(self.point(variant, load, parts[load], at(load)) for load in self.loads)
        helps = [point.load for point in points if point.decision == "helps"]
        hurts = [point.load for point in points if point.decision == "hurts"]
        return LoadRow(
            variant=variant,
            prompt_class=prompt_class,
            points=points,
            helps_up_to=max(helps, default=None),
            hurts_from=min(hurts, default=None),
            crossings=crossings(self.loads, at) if self.complete else (),
            says="",
        )

    def point(self, variant: str, load: float, parts: list[_Part], ratio: PairedRatio | None) -> LoadPoint:
        steps = [
            value
            for part in parts
            for record in self.judges[load].of(variant, part.test_case)
            if (value := TOKENS_PER_STEP.of(record)) is not None
        ]
        return LoadPoint(
            load=load,
            ratio=ratio,
            decision=settled(ratio, self.judges[load].self_check) if self.complete else "undecided",
            tokens_per_step=fmean(steps) if steps else None,
            excluded=tuple(part.test_case for part in parts if not part.counts),
        )

    def parts(self, variant: str, prompt_class: str, load: float) -> list[_Part]:
        judge = self.judges[load]
        return [
            _part(row, counts=judge.counts(row))
            for row in judge.rows
            if row.variant == variant and row.best_baseline and judge.classes[row.test_case] == prompt_class
        ]

    def ratio_at(self, load: float, parts: Mapping[float, list[_Part]]) -> PairedRatio | None:
        """The ratio at a measured load, or between two of them with each prompt's times on straight lines."""
        if load in parts:
            row = [pair for part in parts[load] if part.counts for pair in part.ratios]
            return self.known.ratio(_group(parts[load]), row)
        below = max(known for known in self.loads if known < load)
        above = min(known for known in self.loads if known > load)
        weight = (load - below) / (above - below)
        ends = [
            {prompt: t for p in parts[end] if p.counts for prompt, t in p.times.items()}
            for end in (below, above)
        ]
        # What the blocks of the end with fewer of them share is in the interval whole: more than its part.
        rows = [[pair for p in parts[end] if p.counts for pair in p.ratios] for end in (below, above)]
        frame = min(rows, key=lambda row: len({pair.block for pair in row}))
        row = [
            replace(pair, value=_between(ends[0][pair.prompt], ends[1][pair.prompt], weight))
            for pair in frame
            if pair.prompt in ends[0] and pair.prompt in ends[1]
        ]
        return self.known.ratio(_group(parts[below]), row)

    def served(self, variant: str, load: float) -> Served:
        judge = self.judges[load]
        own = [r for r in self.records if (r.variant, r.load) == (variant, load) and r.block >= 0]
        sent = [record for record in judge.all if record.variant == variant]
        tpots = [value for record in judge.of(variant) if (value := TPOT.of(record)) is not None]
        rate, requests = system_throughput(own) or 0.0, requests_per_second(own) or 0.0
        kept = strain = None
        if self.objective is not None and sent:
            strains = [self.objective.strain(record) for record in sent]
            kept = sum(value <= 1 for value in strains) / len(strains)
            strain = quantile(strains, self.objective.share)
        price, share = self.first.prices.get(variant), self.first.node_share(variant)
        points = self.first.manifest.points
        return Served(
            variant=variant,
            load=load,
            tokens_per_second=rate,
            tokens_per_second_user=1 / median(tpots) if tpots else None,
            requests_per_second=requests,
            kept=kept,
            strain=strain,
            goodput=None if kept is None else kept * requests,
            usd_per_million=(
                share * usd_per_million_tokens(price.usd_per_hour, rate) if price and rate else None
            ),
            point=next((p for p in points if (p.variant, p.load) == (variant, load)), None),
        )

    def capacities(self, served: Sequence[Served], objective: Objective) -> tuple[Capacity, ...]:
        strains = {
            variant: {
                load: strains_of([r for r in judge.all if r.variant == variant], objective)
                for load, judge in self.judges.items()
            }
            for variant in self.first.manifest.variants
        }
        complete_strains = {variant: points for variant, points in strains.items() if all(points.values())}
        drawn = resampled_strains(self.loads, complete_strains, objective.share)
        reference = next((name for name in self.first.baselines if name in complete_strains), None)
        return tuple(
            self.capacity(name, complete_strains, drawn, reference, served, objective)
            for name in complete_strains
        )

    def capacity(
        self,
        variant: str,
        strains: Mapping[str, Mapping[float, Mapping[str, Sequence[float]]]],
        drawn: Mapping[str, Sequence[float | None]],
        reference: str | None,
        served: Sequence[Served],
        objective: Objective,
    ) -> Capacity:
        def estimate(name: str) -> tuple[float | None, bool]:
            flat = [
                [value for values in strains[name][load].values() for value in values] for load in self.loads
            ]
            return carried(self.loads, [quantile(values, objective.share) for values in flat])

        load, at_least = estimate(variant)
        prompts = min(len(point) for point in strains[variant].values())
        span = interval(drawn[variant], prompts, level=JOINT_LEVEL) if load is not None else None
        ratio = ends = None
        if reference is not None and variant != reference and load is not None:
            base, base_at_least = estimate(reference)
            # Two that both carry all that was measured may differ beyond it.
            if base is not None and not at_least and not base_at_least:
                ratio = load / base
                quotients = [
                    own / other if own is not None and other else None
                    for own, other in zip(drawn[variant], drawn[reference], strict=True)
                ]
                ends = interval(quotients, prompts, level=JOINT_LEVEL)
        rates = [s for s in served if s.variant == variant and s.usd_per_million is not None]
        return Capacity(
            variant=variant,
            load=load,
            at_least=at_least,
            low=span[0] if span else None,
            high=span[1] if span else None,
            ratio=ratio,
            ratio_low=ends[0] if ends else None,
            ratio_high=ends[1] if ends else None,
            usd_per_million=_usd_at(load, rates) if load is not None else None,
        )

    def changed_acceptance(self) -> tuple[tuple[str, float, float], ...]:
        """(variant, load, ratio) where the tokens per step differ from those at the lowest load: acceptance
        must not depend on load, since whether a proposal is accepted depends on the text alone.
        """
        tests = [(v, load) for v in self.first.speculative for load in self.loads[1:]]
        changes: list[tuple[str, float, float]] = []
        for variant, load in tests:
            own = {(r.test_case, r.prompt, r.repeat): r for r in self.first.of(variant)}
            paired = [
                Pair(own[key], record)
                for record in self.judges[load].of(variant)
                if (key := (record.test_case, record.prompt, record.repeat)) in own
            ]
            ratio = paired_ratio(
                # What is accepted is no matter of time, so that blocks share nothing.
                [
                    replace(pair, block=number)
                    for number, pair in enumerate(log_ratios(paired, TOKENS_PER_STEP.of))
                ],
                level=row_level(len(tests)),
            )
            if ratio is not None and decide(ratio.interval) in ("helps", "hurts"):
                changes.append((variant, load, 1 / ratio.value))
        return tuple(changes)


def _part(row: RowSource, *, counts: bool) -> _Part:
    timed = [pair for pair in row.alike if TPOT.of(pair.baseline) and TPOT.of(pair.variant)]
    ratios = log_ratios(timed, TPOT.of)
    logs: dict[Prompt, list[tuple[float, float]]] = {}
    for pair, ratio in zip(timed, ratios, strict=True):
        both = (log(TPOT.of(pair.baseline) or 1.0), log(TPOT.of(pair.variant) or 1.0))
        logs.setdefault(ratio.prompt, []).append(both)
    return _Part(
        test_case=row.test_case,
        group=(row.variant, row.against),
        ratios=ratios,
        times={prompt: _means(values) for prompt, values in logs.items()},
        counts=bool(ratios) and counts,
    )


def _means(logs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Geometric means, seconds, of the baseline and the variant."""
    return exp(fmean(base for base, _ in logs)), exp(fmean(own for _, own in logs))


def _between(below: tuple[float, float], above: tuple[float, float], weight: float) -> float:
    """Logarithm of baseline over variant, each on a straight line from ``below`` to ``above``."""
    baseline, variant = (a + (b - a) * weight for a, b in zip(below, above, strict=True))
    return log(baseline / variant)


def _group(parts: Sequence[_Part]) -> tuple[str, str] | None:
    return parts[0].group if parts else None


def _usd_at(load: float, served: Sequence[Served]) -> float | None:
    """Dollars per million tokens at a load, throughput taken as a straight line between measured ones."""
    below = [s for s in served if s.load <= load]
    above = [s for s in served if s.load >= load]
    if not below or not above:
        return None
    low, high = below[-1], above[0]
    if low.load == high.load or low.usd_per_million is None or high.usd_per_million is None:
        return low.usd_per_million
    part = (load - low.load) / (high.load - low.load)
    # Dollars per token go with one over the throughput.
    return 1 / ((1 - part) / low.usd_per_million + part / high.usd_per_million)
