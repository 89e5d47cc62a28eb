"""What every section is made from, and the figures that several of them show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from specdec.analysis.verdict import Comparison, Interval, Measurement, PairedRatio, Spread, Verdict
from specdec.metrics import E2E, STEP_GAP, TPOT, TTFT
from specdec.plots import Picture
from specdec.report.content import Cell, Fold, Table, Tone, cell
from specdec.report.numbers import Number, Trace, decimals, duration, milliseconds, times
from specdec.runs.folder import Run
from specdec.runs.manifest import RunManifest

TONES: dict[str, Tone] = {"helps": "good", "hurts": "bad", "no difference": "quiet", "undecided": "quiet"}
"""How a decision is coloured; the word stands beside it always."""

INTERVAL = "the wider of moderated t and bootstrap over prompts"
"""How the interval of a paired ratio is made, see ``specdec.analysis.significance``."""

PAGE = 40
"""Test cases that are shown at once; more are folded by class of prompts, in pages of so many."""

METRICS = {"tpot": TPOT, "ttft": TTFT, "e2e": E2E, "step_gap": STEP_GAP}
"""What one request contributes, by the name of its field in a measurement."""


def made_with(manifest: RunManifest) -> str:
    """Which specdec measured a run, as part of a sentence."""
    return f"specdec {manifest.version}" if manifest.version else "a specdec that the run does not name"


Evidence = tuple[tuple[Picture, ...], tuple[Table, ...]]


@dataclass(frozen=True, slots=True)
class Page:
    """Test cases that are shown together.

    Attributes:
        title: class of prompts and number of the page; empty for the only page.
        suffix: makes the names of its pictures unique.
        test_cases: in the order of the records.
    """

    title: str
    suffix: str
    test_cases: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """A run, its verdict, and the trace that its numbers go through."""

    run: Run
    verdict: Verdict
    trace: Trace

    @property
    def variants(self) -> tuple[str, ...]:
        """Baselines first: the order of colours and columns."""
        return (*self.verdict.baselines, *self.verdict.speculative)

    @property
    def complete(self) -> bool:
        """Whether the run may lead to a verdict."""
        return self.verdict.status == "complete"

    @property
    def several(self) -> bool:
        """Whether a row must say which variants it compares."""
        return len(self.variants) > 2

    @cached_property
    def pages(self) -> tuple[Page, ...]:
        """All test cases on one page, or each class of prompts on its own pages."""
        cases = self.verdict.test_cases
        if len(cases) <= PAGE:
            return (Page("", "", cases),)
        classes: dict[str, list[str]] = {}
        known = {m.test_case: m.prompt_class for m in self.verdict.measurements}
        for case in cases:
            classes.setdefault(known.get(case, "other"), []).append(case)
        pages: list[Page] = []
        for name, members in classes.items():
            for start in range(0, len(members), PAGE):
                part = tuple(members[start : start + PAGE])
                which = f", {start + 1} to {start + len(part)} of {len(members)}"
                title = f"{name}{which if len(members) > PAGE else ''}"
                pages.append(Page(title, f"-{len(pages) + 1}", part))
        return tuple(pages)

    def paged(self, make: Callable[[Page], Evidence], title: str) -> tuple[Evidence, tuple[Fold, ...]]:
        """The evidence of all test cases: at once, or as folds where they are many."""
        if len(self.pages) == 1:
            return make(self.pages[0]), ()
        made = [(page, *make(page)) for page in self.pages]
        folds = [
            Fold(f"{title}: {page.title}", pictures, tables)
            for page, pictures, tables in made
            if pictures or tables
        ]
        return ((), ()), tuple(folds)

    def place(self, variant: str) -> int:
        """Index of the variant, for its colour and marker."""
        return self.variants.index(variant)

    def label(self, comparison: Comparison) -> str:
        """What a row is called where the variants need naming."""
        return f"{comparison.variant} against {comparison.against}"

    def median(self, metric: str, m: Measurement | None) -> Number | None:
        """The median of ``tpot``, ``ttft``, ``e2e`` or ``step_gap``."""
        spread = self.spread(metric, m)
        if m is None or spread is None:
            return None
        shown = milliseconds(spread.median) if metric == "tpot" else duration(spread.median)
        how = f"median over {spread.requests} requests of {METRICS[metric].formula}"
        return self.trace.number(
            f"{metric}/{m.variant}/{m.test_case}",
            spread.median,
            "s",
            shown,
            how,
            self.trace.measured(m.test_case, m.variant),
        )

    def spread(self, metric: str, m: Measurement | None) -> Spread | None:
        """Of one metric of a measurement."""
        if m is None:
            return None
        return {"tpot": m.tpot, "ttft": m.ttft, "e2e": m.e2e, "step_gap": m.step_gap}[metric]

    def bound(self, metric: str, m: Measurement | None, end: str) -> Number | None:
        """The ``p10`` or ``p90`` of a metric."""
        spread = self.spread(metric, m)
        if m is None or spread is None:
            return None
        value = spread.p10 if end == "p10" else spread.p90
        how = f"{end} over {spread.requests} requests of {METRICS[metric].formula}"
        lines = self.trace.measured(m.test_case, m.variant)
        return self.trace.number(
            f"{metric}/{m.variant}/{m.test_case}/{end}", value, "s", duration(value), how, lines
        )

    def ratio(self, metric: str, c: Comparison) -> Number | None:
        """Baseline over variant, paired."""
        paired = {"tpot": c.tpot, "ttft": c.ttft, "e2e": c.e2e}[metric]
        return self.paired(metric, paired, c.test_case, c.variant, c.against)

    def paired(
        self, metric: str, paired: PairedRatio | None, test_case: str, variant: str, against: str
    ) -> Number | None:
        """A ratio over the pairs of one test case."""
        if paired is None:
            return None
        how = (
            f"geometric mean over {paired.prompts} prompts of {against} / {variant},"
            f" {METRICS[metric].symbol}, paired by prompt and repeat"
        )
        lines = self.trace.measured(test_case, variant, against)
        return self.trace.number(
            f"ratio/{metric}/{variant}/{against}/{test_case}",
            paired.value,
            "ratio",
            times(paired.value),
            how,
            lines,
        )

    def interval(self, c: Comparison) -> Cell:
        """The interval of the TPOT ratio."""
        if c.tpot is None or c.tpot.interval is None:
            return cell(c.tpot.no_interval if c.tpot else None, tone="quiet")
        ends = self.ends(
            f"ratio/tpot/{c.variant}/{c.against}/{c.test_case}",
            c.tpot.interval,
            self.trace.measured(c.test_case, c.variant, c.against),
        )
        return cell(ends[0], " to ", ends[1])

    def ends(self, key: str, interval: Interval, lines: Sequence[int]) -> tuple[Number, Number]:
        """Both ends of a ratio's interval."""
        how = f"{100 * interval.level:.3g}% interval, {INTERVAL}"
        low = self.trace.number(
            f"{key}/low", interval.low, "ratio", decimals(interval.low), f"low end of the {how}", lines
        )
        high = self.trace.number(
            f"{key}/high", interval.high, "ratio", decimals(interval.high), f"high end of the {how}", lines
        )
        return low, high

    def tokens_per_step(self, m: Measurement | None) -> Number | None:
        """Mean tokens a step gave."""
        if m is None or m.acceptance is None:
            return None
        value = m.acceptance.tokens_per_step
        how = f"tokens after the first chunk over {m.acceptance.steps} steps ({m.acceptance.source})"
        lines = self.trace.measured(m.test_case, m.variant)
        return self.trace.number(
            f"tokens_per_step/{m.variant}/{m.test_case}", value, "tokens/step", decimals(value), how, lines
        )

    def parity(self, c: Comparison) -> Cell:
        """Whether the texts are the same, in few words."""
        p = c.parity
        if p.state == "not judged":
            return cell("not judged", tone="quiet")
        key, lines = (
            f"parity/{c.variant}/{c.against}/{c.test_case}",
            self.trace.measured(c.test_case, c.variant, c.against),
        )
        equal = self.trace.number(
            f"{key}/equal", p.equal, "count", str(p.equal), "pairs with the same text", lines
        )
        total = self.trace.number(
            f"{key}/total", p.total, "count", str(p.total), "pairs by prompt and repeat", lines
        )
        words = {"same": "", "swaps": ", swaps", "differs": ", differs"}[p.state]
        return cell(equal, " of ", total, words, tone="bad" if p.state == "differs" else "plain")
