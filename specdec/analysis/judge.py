"""Puts the parts of the analysis together into the verdict on one run."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from specdec.analysis.acceptance import acceptance, reports_proposals
from specdec.analysis.advice import WindowAdvice
from specdec.analysis.arms import unlike_arms
from specdec.analysis.conventions import convention_of, is_local, strangers
from specdec.analysis.cost import by_price, in_flight, own_price, spent, token_cost
from specdec.analysis.drafts import compare_drafts
from specdec.analysis.load import judge_loads, read_together
from specdec.analysis.load_windows import windows_over_load
from specdec.analysis.phases import phase_levels
from specdec.analysis.progress import progress_of
from specdec.analysis.roofline import roofline
from specdec.analysis.rows import Rows, RowSource, class_summaries, compare_rows, overall, row_sources
from specdec.analysis.sampled import SampledTest, compared_in
from specdec.analysis.seams import Shift, shifts
from specdec.analysis.self_check import self_check
from specdec.analysis.sentences import caveats, overall_sentence
from specdec.analysis.significance import JOINT_LEVEL, MARGIN, ReadTogether, spread
from specdec.analysis.step_reading import merges, step_source
from specdec.analysis.tuning import windows_of
from specdec.analysis.verdict import (
    Measurement,
    Roofline,
    Spread,
    StepSource,
    Verdict,
)
from specdec.catalog.chips import Instance
from specdec.catalog.conventions import Convention
from specdec.catalog.instances import INSTANCES
from specdec.catalog.prices import NodePrice
from specdec.catalog.roofline import Floor, floor_of, limit_step
from specdec.metrics.definition import Metric
from specdec.metrics.e2e import E2E
from specdec.metrics.step_gap import STEP_GAP
from specdec.metrics.tpot import TPOT
from specdec.metrics.ttft import TTFT
from specdec.rejoin.store import Followed
from specdec.runs.manifest import RunManifest
from specdec.runs.record import EXACT, SELF_CHECK, RequestRecord, measured

if TYPE_CHECKING:
    from specdec.experiment.sections import VariantSettings

STALL_SECONDS, REQUEST_SECONDS = 120.0, 1800.0
"""Deadlines of a run that does not say its own: the client's defaults."""


def judge(
    manifest: RunManifest,
    records: Iterable[RequestRecord],
    *,
    convention: Convention | None = None,
    price: NodePrice | None = None,
    rejoined: Sequence[Followed] = (),
    short_answers: Sequence[RequestRecord] = (),
) -> Verdict:
    """Judges one run.

    Args:
        manifest: of the run.
        records: of the run, in file order; only those of our own client count.
        convention: step arithmetic of the serving stack; by default what the manifest's engine or serving
            stack is known for.
        price: of the accelerator node. By default the experiment's own price or the catalogue's, and none for
            a run on this machine.
        rejoined: texts that were followed after the run, see ``specdec.rejoin``.
        short_answers: that were asked for above temperature 0, see ``specdec.analysis.sampled``.
    """
    sampled = compared_in(manifest, short_answers)
    own = [record for record in records if record.lane in (EXACT, SELF_CHECK)]
    exact = [record for record in own if record.lane == EXACT]
    loads = sorted({record.load for record in exact if not record.warmup})
    if len(loads) < 2:
        verdict = RunJudge(manifest, own, convention, price, rejoined, sampled).verdict()
        return replace(verdict, progress=progress_of(manifest, own))
    judges = {
        load: RunJudge(
            manifest,
            [record for record in own if record.load == load],
            convention,
            price,
            rejoined,
            sampled,
        )
        for load in loads
    }
    known = read_together(judges)
    load_verdict = judge_loads(judges, known, exact)
    windows = None
    if load_verdict.unit == "in flight" and manifest.status == "complete":
        windows, over_load = windows_over_load(judges)
        load_verdict = replace(load_verdict, windows=over_load)
    lowest = judges[loads[0]].verdict(known, windows)
    return replace(
        lowest,
        sentence=load_verdict.sentence or lowest.sentence,
        caveats=(*load_verdict.caveats, *lowest.caveats),
        load=loads[0],
        loads=load_verdict,
        progress=progress_of(manifest, own),
    )


class RunJudge:
    """Judges the requests of one load of a run."""

    def __init__(
        self,
        manifest: RunManifest,
        records: Iterable[RequestRecord],
        convention: Convention | None,
        price: NodePrice | None,
        rejoined: Sequence[Followed] = (),
        sampled: tuple[SampledTest, ...] = (),
    ) -> None:
        self.manifest = manifest
        self.sampled = sampled
        self.rejoined = rejoined
        self.strangers = strangers(manifest)
        self.local = is_local(manifest)
        self.convention = convention or convention_of(manifest)
        self.experiment = None if self.strangers else manifest.configured
        seen = None if self.experiment is None else self.experiment.price(self.experiment.regions[0])
        seen = None if self.local else seen
        self.prices = {
            name: found
            for name in manifest.variants
            if (found := price or own_price(manifest, name) or seen) is not None
        }
        sent = [record for record in records if not record.warmup]
        self.all = [record for record in sent if record.lane == EXACT]
        self.ok = list(measured(self.all))
        self.by_row, self.ok_by_row = _by_row(self.all), _by_row(self.ok)
        self.ok_of: dict[str, list[RequestRecord]] = {}
        for record in self.ok:
            self.ok_of.setdefault(record.variant, []).append(record)
        self.baselines = tuple(
            name for name, variant in manifest.variants.items() if variant.get("role") == "baseline"
        )
        self.speculative = tuple(name for name in manifest.variants if name not in self.baselines)
        self.test_cases = tuple(dict.fromkeys(record.test_case for record in self.all))
        self.classes = {record.test_case: record.prompt_class for record in self.all}
        self.told = {name: reports_proposals(self.of(name)) for name in manifest.variants}
        plain = [record for name in self.baselines for record in self.of(name)]
        self.sources: dict[str, StepSource | None] = {
            name: step_source(plain, self.of(name)) for name in manifest.variants
        }
        again = [record for record in sent if record.lane == SELF_CHECK]
        first = next(iter(self.baselines), "")
        self.self_check = self_check(first, self.of(first), again)
        self.merged = tuple(name for name in self.speculative if self.is_merged(name))
        self.sources |= dict.fromkeys(self.merged)

    def of(self, variant: str, test_case: str | None = None) -> list[RequestRecord]:
        """Measured requests of one variant, on one or all test cases."""
        if test_case is not None:
            return self.ok_by_row.get((variant, test_case), [])
        return self.ok_of.get(variant, [])

    def is_merged(self, variant: str) -> bool:
        """Whether a variant's steps are larger than its window allows: its server joins them."""
        window = self.window(variant)
        most = None if window is None else self.convention.usable(window) + 1
        return most is not None and self.sources[variant] is not None and merges(self.of(variant), most)

    def window(self, variant: str) -> int | None:
        """The variant's num_speculative_tokens."""
        value = self.manifest.variants[variant].get("window")
        return int(value) if value is not None and variant in self.speculative else None

    @property
    def instance(self) -> Instance | None:
        """The accelerator instance of the run's experiment, where it has one that the catalogue knows."""
        return None if self.experiment is None else INSTANCES.get(self.experiment.capacity.instance_type)

    def settings(self, variant: str) -> VariantSettings | None:
        """What a variant ran with, by the run's experiment."""
        experiment = self.experiment
        if experiment is None:
            return None
        return next((experiment.settings(own) for own in experiment.variants if own.name == variant), None)

    def node_share(self, variant: str) -> float:
        """Part of the node's devices that the variant spans."""
        instance, settings = self.instance, self.settings(variant)
        return min(1.0, settings.devices / instance.devices) if instance and settings else 1.0

    def verdict(
        self, known: ReadTogether | None = None, windows: tuple[WindowAdvice, ...] | None = None
    ) -> Verdict:
        """Everything, in the order the parts build on each other; ``known`` as in ``comparisons``.
        ``windows`` is the advice where more than this load says what it is.
        """
        measurements = tuple(
            self.measurement(variant, case) for case in self.test_cases for variant in self.manifest.variants
        )
        rows = self.compared(known)
        classes = class_summaries(
            rows, measurements, tuple(dict.fromkeys(self.classes.values())), self.speculative
        )
        if windows is None:
            windows = windows_of(self) if self.manifest.status == "complete" else ()
        verdict = Verdict(
            run=self.manifest.run,
            experiment=self.manifest.experiment,
            configuration_hash=self.manifest.configuration_hash,
            status=self.manifest.status,
            sentence="",
            baselines=self.baselines,
            speculative=self.speculative,
            test_cases=self.test_cases,
            margin=MARGIN,
            level=JOINT_LEVEL,
            measurements=measurements,
            comparisons=rows.comparisons,
            classes=classes,
            overall=overall(rows, self.speculative),
            windows=windows,
            drafts=compare_drafts(windows, self.convention),
            rooflines=() if self.local else self.rooflines(measurements),
            prices=tuple(self.prices.items()),
            convention=self.convention.name,
            environment=self.manifest.environment,
            sources=self.source_list(),
            caveats=(),
            phases=phase_levels(self.ok),
            sampled=self.sampled,
            self_check=self.self_check,
        )
        said = caveats(
            verdict,
            local=self.local,
            problem=self.manifest.problem,
            merged=self.merged,
            seams=self.manifest.seams,
        )
        foreign = (
            f"{name} is served by the model {model}, not by the experiment's: no price, roofline and step"
            " arithmetic of the experiment apply."
            for name, model in self.strangers.items()
        )
        settings = {name: own for name in self.manifest.variants if (own := self.settings(name))}
        unlike = () if self.local else unlike_arms(settings, self.baselines, self.speculative)
        return replace(verdict, sentence=overall_sentence(verdict), caveats=(*foreign, *unlike, *said))

    def measurement(self, variant: str, case: str) -> Measurement:
        """One variant on one test case."""
        records = self.of(variant, case)
        outcomes = Counter(record.outcome for record in self.by_row.get((variant, case), ()))
        cost = None
        if variant in self.prices:
            cost = token_cost(
                records,
                lost_seconds=self.lost_seconds(variant, case),
                mean_in_flight=self.in_flight[variant],
                price=self.prices[variant],
                node_share=self.node_share(variant),
            )
        return Measurement(
            variant=variant,
            test_case=case,
            prompt_class=self.classes[case],
            outcomes=tuple(sorted(outcomes.items())),
            tpot=_spread(records, TPOT),
            ttft=_spread(records, TTFT),
            e2e=_spread(records, E2E),
            step_gap=_spread(records, STEP_GAP),
            acceptance=acceptance(
                records,
                convention=self.convention,
                window=self.window(variant),
                source=self.sources[variant],
                counters=self.manifest.server_counters.get(variant),
                told=self.told[variant],
            ),
            cost=cost,
        )

    @functools.cached_property
    def in_flight(self) -> Mapping[str, float | None]:
        """Mean requests in flight while each variant was loaded."""
        return {name: in_flight(self.of(name)) for name in self.manifest.variants}

    def lost_seconds(self, variant: str, case: str) -> float:
        """What the failed requests of a variant took."""
        asked = self.manifest.configuration.get("benchmark", {})
        stall, total = (
            asked.get("stall_seconds", STALL_SECONDS),
            asked.get("request_seconds", REQUEST_SECONDS),
        )
        return sum(
            spent(record, stall=stall, total=total)
            for record in self.by_row.get((variant, case), ())
            if record.outcome != "ok"
        )

    @functools.cached_property
    def rows(self) -> tuple[RowSource, ...]:
        """Each variant against the first baseline and, where another one is faster, against that too."""
        medians: dict[tuple[str, str], float] = {}
        for name in self.baselines:
            for case in self.test_cases:
                tpots = [value for record in self.of(name, case) if (value := TPOT.of(record)) is not None]
                if tpots:
                    medians[name, case] = median(tpots)
        sources = row_sources(self.manifest, self.ok_by_row, self.test_cases, self.baselines, medians)
        return tuple(replace(source, sampled=self.sampled) for source in sources)

    def compared(self, known: ReadTogether | None = None) -> Rows:
        """Every row, and what they know of each other; ``known`` where other rows are read with them."""
        return compare_rows(
            self.manifest,
            self.rows,
            self.by_row,
            known,
            self.rejoined,
            shifted=self.shifted,
            check=self.self_check,
        )

    @functools.cached_property
    def shifted(self) -> Mapping[Hashable, Shift]:
        """Groups of rows whose ratio changed where the run was interrupted and resumed."""
        seams = self.manifest.seams
        rows = [(row.group, row.alike) for row in self.rows] if seams else []
        return shifts(rows, seams, level=JOINT_LEVEL, margin=MARGIN)

    def counts(self, row: RowSource) -> bool:
        """Whether the speed of a row counts; see ``specdec.analysis.gates``."""
        said = row.reasons(self.manifest, self.by_row, self.rejoined, self.shifted)
        return not any(reason.withholds for reason in said)

    def rooflines(self, measurements: Sequence[Measurement]) -> tuple[Roofline, ...]:
        """Each variant against the memory bandwidth of its devices; none where neither the catalogue nor the
        experiment knows the model, or the catalogue lacks the instance.
        """
        experiment, instance = self.experiment, self.instance
        if experiment is None or instance is None:
            return ()
        try:
            model = experiment.model(experiment.serving.target)
        except KeyError:
            return ()
        rooflines: list[Roofline] = []
        for variant in self.manifest.variants:
            tpots = [m.tpot.mean for m in measurements if m.variant == variant and m.tpot is not None]
            records = self.of(variant)
            flying = self.in_flight[variant]
            settings = self.settings(variant)
            if not tpots or flying is None or settings is None:
                continue
            limit = limit_step(
                model,
                instance,
                devices=settings.devices,
                tensor_parallel_degree=settings.tensor_parallel_degree,
                sequences=flying,
                context=_context(records),
            )
            rooflines.append(
                roofline(
                    variant,
                    instance=instance,
                    limit=limit,
                    tpot=fmean(tpots),
                    speculative=variant in self.speculative,
                )
            )
        return tuple(rooflines)

    def floor(self, variant: str) -> Floor:
        """The floor of a variant's step, by the catalogue; zeros for what it does not know."""
        settings, records = self.settings(variant), self.of(variant)
        if self.local or self.experiment is None or self.instance is None or settings is None or not records:
            return Floor()
        try:
            model = self.experiment.model(self.experiment.serving.target)
        except KeyError:
            return Floor()
        return floor_of(
            model,
            self.instance,
            devices=settings.devices,
            tensor_parallel_degree=settings.tensor_parallel_degree,
            context=_context(records),
        )

    def source_list(self) -> tuple[tuple[str, str], ...]:
        """What the numbers were taken from."""
        counts = Counter(record.token_source for record in self.ok)
        rows = [
            (
                "token counts",
                ", ".join(f"{source} ({count} requests)" for source, count in sorted(counts.items())),
            )
        ]
        for name, source in self.sources.items():
            said = "server-per-request" if self.told[name] else source or "not known"
            rows.append((f"tokens per step of {name}", said))
        rows.append(("step arithmetic", f"{self.convention.name}: {self.convention.source}"))
        for price, names in by_price(self.prices.items()):
            whose = "" if len(names) == len(self.manifest.variants) else f" of {', '.join(names)}"
            date = f", {price.date}" if price.date else ""
            said = f"{price.usd_per_hour:g} USD an hour ({price.purchase}): {price.source}{date}"
            rows.append((f"price{whose}", said))
        return tuple(rows)


def _context(records: Sequence[RequestRecord]) -> float:
    """Mean tokens in a sequence's cache while it is answered."""
    return fmean((record.prompt_tokens or 0) + (record.output_tokens or 0) / 2 for record in records)


def _by_row(records: Iterable[RequestRecord]) -> dict[tuple[str, str], list[RequestRecord]]:
    rows: dict[tuple[str, str], list[RequestRecord]] = {}
    for record in records:
        rows.setdefault((record.variant, record.test_case), []).append(record)
    return rows


def _spread(records: Sequence[RequestRecord], metric: Metric) -> Spread | None:
    values: dict[str, list[float]] = {}
    for record in records:
        value = metric.of(record)
        if value is not None:
            values.setdefault(record.prompt, []).append(value)
    return spread(values)
