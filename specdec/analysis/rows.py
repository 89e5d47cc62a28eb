"""The rows of a verdict: each variant against a baseline, test case by test case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from statistics import fmean
from types import MappingProxyType
from typing import Any

from specdec.analysis.fleet import sums_ratio
from specdec.analysis.gates import reasons, side_of, temperature, unlike
from specdec.analysis.pairing import LogRatio, Pair, bracketed, log_ratios, pairs, prompt_means
from specdec.analysis.parity import parity
from specdec.analysis.phases import shared_spread
from specdec.analysis.rejoined import with_rejoined
from specdec.analysis.sampled import SampledTest
from specdec.analysis.seams import Shift
from specdec.analysis.self_check import settled, within_noise
from specdec.analysis.sentences import comparison_sentence
from specdec.analysis.significance import MARGIN, ReadTogether, decide, paired_ratio
from specdec.analysis.verdict import (
    ClassSummary,
    Comparison,
    Decision,
    Measurement,
    Overall,
    PairedRatio,
    Parity,
    Reason,
    SelfCheck,
)
from specdec.metrics.e2e import E2E
from specdec.metrics.tpot import TPOT
from specdec.metrics.ttft import TTFT
from specdec.rejoin.store import Followed
from specdec.runs.manifest import RunManifest
from specdec.runs.place import place
from specdec.runs.record import RequestRecord

_NO_SHIFTS: Mapping[Hashable, Shift] = MappingProxyType({})

Records = Mapping[tuple[str, str], Sequence[RequestRecord]]
"""By (variant, test case)."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """What one row is made of.

    Attributes:
        variant, against, test_case, best_baseline: see ``Comparison``.
        alike: pairs that differ in the variant alone.
        apart: the other pairs, and in what else they differ.
        sampled: tests of short answers of the run.
    """

    variant: str
    against: str
    test_case: str
    best_baseline: bool
    alike: tuple[Pair, ...]
    apart: tuple[tuple[Pair, tuple[str, ...]], ...]
    sampled: tuple[SampledTest, ...] = ()

    @property
    def group(self) -> tuple[str, str]:
        """Rows of one group share no pair."""
        return self.variant, self.against

    @property
    def sampled_test(self) -> SampledTest | None:
        """The test of short answers of the two at the row's temperature; None where there was none."""
        mine = self.variant, self.against, temperature(self.alike)
        return next((t for t in self.sampled if (t.variant, t.against, t.temperature) == mine), None)

    def requests(self, every: Records) -> tuple[Sequence[RequestRecord], Sequence[RequestRecord]]:
        """All requests of either side, failed ones too."""
        return every.get((self.against, self.test_case), ()), every.get((self.variant, self.test_case), ())

    def parity(self, every: Records, followed: Sequence[Followed] = ()) -> Parity:
        """Of the texts, with what was followed of them."""
        alone = parity(self.alike, [r for r in self.requests(every)[0] if r.outcome == "ok"])
        mine = [
            each
            for each in followed
            if each.test_case == self.test_case
            and each.against == self.against
            and each.variant in (self.variant, self.against)
        ]
        return with_rejoined(alone, self.alike, mine) if mine else alone

    def reasons(
        self,
        manifest: RunManifest,
        every: Records,
        followed: Sequence[Followed] = (),
        shifted: Mapping[Hashable, Shift] = _NO_SHIFTS,
        text: Parity | None = None,
    ) -> list[Reason]:
        """Why the row does not count, or counts with a note; ``text`` is its parity where that is known."""
        ours, theirs = manifest.variants[self.against], manifest.variants[self.variant]
        baseline, variant = self.requests(every)
        shift = shifted.get(self.group)
        return list(
            reasons(
                names=(self.against, self.variant),
                sides=(side_of(baseline), side_of(variant)),
                prompt_class=next((r.prompt_class for r in (*baseline, *variant)), ""),
                alike=self.alike,
                apart=self.apart,
                parity=text or self.parity(every, followed),
                models=(ours.get("model"), theirs.get("model")),
                same_server=_one_server(ours, theirs),
                complete=manifest.status == "complete",
                shift=shift.says if shift else None,
                sampled=self.sampled_test,
                templates=(ours.get("template"), theirs.get("template")),
            )
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows of a run, and what they know of each other.

    Attributes:
        comparisons: see ``Verdict``.
        sources: of each, in the same order.
        tpot, fleet: what the rows know of each other in either ratio.
        check: the baseline against itself.
    """

    comparisons: tuple[Comparison, ...]
    sources: tuple[RowSource, ...]
    tpot: ReadTogether
    fleet: ReadTogether
    check: SelfCheck | None


def compare_rows(
    manifest: RunManifest,
    sources: Sequence[RowSource],
    every: Records,
    known: ReadTogether | None = None,
    followed: Sequence[Followed] = (),
    shifted: Mapping[Hashable, Shift] = _NO_SHIFTS,
    check: SelfCheck | None = None,
) -> Rows:
    """Compares all rows, read together.

    Args:
        manifest: of the run.
        sources: see ``row_sources``.
        every: all requests but warm-up.
        known: what rows know of each other, where more than these are read together.
        followed: texts that were followed, see ``specdec.rejoin``.
        shifted: groups of rows whose ratio changed at a seam, see ``specdec.analysis.seams``.
        check: the baseline against itself.
    """
    tpots, ttfts, e2es = (
        [(source.group, log_ratios(source.alike, metric.of)) for source in sources]
        for metric in (TPOT, TTFT, E2E)
    )
    sums = [(source.group, sums_ratio(source.alike)) for source in sources]
    tpot_known = known or ReadTogether.of(tpots)
    ttft_known, e2e_known, fleet_known = map(ReadTogether.of, (ttfts, e2es, sums))
    comparisons = tuple(
        _comparison(
            manifest,
            source,
            every,
            followed,
            shifted,
            check,
            tpot_known.ratio(*tpot),
            ttft_known.ratio(*ttft),
            e2e_known.ratio(*e2e),
            fleet_known.ratio(*fleet),
        )
        for source, tpot, ttft, e2e, fleet in zip(sources, tpots, ttfts, e2es, sums, strict=True)
    )
    return Rows(comparisons, tuple(sources), tpot_known, fleet_known, check)


def row_sources(
    manifest: RunManifest,
    ok: Records,
    test_cases: Sequence[str],
    baselines: Sequence[str],
    medians: Mapping[tuple[str, str], float],
) -> Iterator[RowSource]:
    """What the rows are made of: every variant with the first baseline of each test case, and with the
    fastest where that is another.

    Args:
        manifest: of the run.
        ok: requests that ended as asked.
        test_cases: in order.
        baselines: names, the experiment's first.
        medians: median TPOT by (variant, test case), where known.
    """
    together = bracketed if is_sequential(manifest) else pairs
    for case in test_cases:
        # A test case that no baseline finished is a row all the same: it is named, and says why.
        timed = [name for name in baselines if (name, case) in medians] or list(baselines[:1])
        if not timed:
            continue
        best = min(timed, key=lambda name: medians.get((name, case), 0.0))
        for variant in manifest.variants:
            for against in dict.fromkeys((timed[0], best)):
                if variant == against or (variant in baselines and against != timed[0]):
                    continue
                paired = together(ok.get((against, case), ()), ok.get((variant, case), ()))
                marked = [(pair, unlike(pair)) for pair in paired]
                yield RowSource(
                    variant,
                    against,
                    case,
                    against == best,
                    tuple(pair for pair, fields in marked if not fields),
                    tuple((pair, fields) for pair, fields in marked if fields),
                )


def _comparison(
    manifest: RunManifest,
    source: RowSource,
    every: Records,
    followed: Sequence[Followed],
    shifted: Mapping[Hashable, Shift],
    check: SelfCheck | None,
    tpot: PairedRatio | None,
    ttft: PairedRatio | None,
    e2e: PairedRatio | None,
    fleet: PairedRatio | None,
) -> Comparison:
    complete = manifest.status == "complete"
    requests = source.requests(every)
    text = source.parity(every, followed)
    # A baseline that drifts differs from itself, and its phases stand on both sides of the variant's.
    noise = None if is_sequential(manifest) else noise_of(requests[0])
    known = (noise, check.floor if check else None)
    floor = max((each for each in known if each is not None), default=None)
    decision: Decision = settled(tpot, check, noise) if complete else "undecided"
    said = source.reasons(manifest, every, followed, shifted, text)
    if complete and tpot and floor and decision != decide(tpot.interval):
        says = f"the baseline differs from itself by up to {floor - 1:.1%}, which is as much"
        said.append(Reason("within noise", False, says))
    if decision == "undecided" and tpot and within_noise(tpot, floor):
        # They would narrow the interval, but equal things would still differ as much.
        tpot = replace(tpot, more_prompts=None, more_repeats=None)
    counts = not any(reason.withholds for reason in said)
    row = Comparison(
        variant=source.variant,
        against=source.against,
        test_case=source.test_case,
        prompt_class=next((r.prompt_class for side in requests for r in side), ""),
        best_baseline=source.best_baseline,
        decision=decision,
        counts=counts,
        worthwhile=counts and decision == "helps" and tpot is not None and worthwhile(tpot, fleet),
        reasons=tuple(said),
        baseline_side=side_of(requests[0]),
        variant_side=side_of(requests[1]),
        unlike_pairs=len(source.apart),
        tpot=tpot,
        ttft=ttft,
        e2e=e2e,
        fleet=fleet,
        noise=noise,
        floor=floor,
        parity=text,
        says="",
        temperature=temperature(source.alike),
    )
    return replace(row, says=comparison_sentence(row))


def is_sequential(manifest: RunManifest) -> bool:
    """Whether the run served one variant after the other, in phases."""
    return manifest.environment.get("load", {}).get("schedule") == "sequential"


def worthwhile(tpot: PairedRatio, fleet: PairedRatio | None) -> bool:
    """Whether a real difference is worth acting on: at least the margin, and no more time in total."""
    return tpot.value >= 1 + MARGIN and (fleet is None or fleet.value >= 1)


def noise_of(baseline: Sequence[RequestRecord]) -> float | None:
    """By how much a baseline differs from itself: TPOT of the first of each two repeats over the second, as a
    ratio of at least 1, geometric mean over prompts. None without repeats. Repeats on two sides of a seam are
    not compared, since they may come from two machines.

    Args:
        baseline: all its requests on one test case.
    """
    repeats: dict[tuple[str, str], list[RequestRecord]] = defaultdict(list)
    for record in sorted(baseline, key=lambda record: record.repeat):
        if record.outcome == "ok":
            repeats[record.run, record.prompt].append(record)
    paired = [
        Pair(first, second)
        for group in repeats.values()
        for first, second in zip(group[::2], group[1::2], strict=False)
    ]
    means = prompt_means(log_ratios(paired, TPOT.of))
    return exp(abs(fmean(means))) if means else None


def class_summaries(
    rows: Rows, measurements: Sequence[Measurement], classes: Sequence[str], speculative: Sequence[str]
) -> tuple[ClassSummary, ...]:
    """Each speculative variant over all prompts of a class, against the best baseline of each test case."""
    accepted = {(m.variant, m.test_case): m.acceptance for m in measurements}
    summaries: list[ClassSummary] = []
    for prompt_class in classes:
        for variant in speculative:
            chosen = [
                (row, source) for row, source in _counting(rows, variant) if row.prompt_class == prompt_class
            ]
            if not chosen:
                continue
            ratio = _together(chosen, rows.tpot, lambda paired: log_ratios(paired, TPOT.of))
            lengths = [
                acceptance.tokens_per_step
                for row, _ in chosen
                if (acceptance := accepted[variant, row.test_case]) is not None
            ]
            summaries.append(
                ClassSummary(
                    prompt_class=prompt_class,
                    variant=variant,
                    test_cases=tuple(row.test_case for row, _ in chosen),
                    decision=settled(ratio, rows.check),
                    tpot=ratio,
                    tokens_per_step=fmean(lengths) if lengths else None,
                )
            )
    return tuple(summaries)


def overall(rows: Rows, speculative: Sequence[str]) -> tuple[Overall, ...]:
    """Each speculative variant over all rows that count: a user's ratio and a fleet's."""
    totals: list[Overall] = []
    for variant in speculative:
        chosen = _counting(rows, variant)
        if chosen:
            totals.append(
                Overall(
                    variant=variant,
                    tpot=_together(chosen, rows.tpot, lambda paired: log_ratios(paired, TPOT.of)),
                    fleet=_together(chosen, rows.fleet, sums_ratio),
                )
            )
    return tuple(totals)


def _counting(rows: Rows, variant: str) -> list[tuple[Comparison, RowSource]]:
    return [
        (row, source)
        for row, source in zip(rows.comparisons, rows.sources, strict=True)
        if row.variant == variant and row.best_baseline and row.counts
    ]


def _together(
    chosen: Sequence[tuple[Comparison, RowSource]],
    known: ReadTogether,
    ratios: Callable[[Sequence[Pair]], tuple[LogRatio, ...]],
) -> PairedRatio | None:
    mixed = ratios([pair for _, source in chosen for pair in source.alike])
    groups = {source.group for _, source in chosen}
    # Where the best baseline changes with the test case, the pairs are a group of their own.
    blocks = known.blocks.get(groups.pop()) if len(groups) == 1 else shared_spread([mixed])
    return paired_ratio(mixed, level=known.level, common=known.common, blocks=blocks)


def _one_server(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    urls = [side.get("url") for side in (ours, theirs)]
    return (
        all(urls) and len({place(str(url)) for url in urls}) == 1 and ours.get("model") == theirs.get("model")
    )
