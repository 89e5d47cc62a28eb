"""What every section is made from, and the figures that several of them show."""

from __future__ import annotations

from dataclasses import dataclass

from specdec.analysis.verdict import Comparison, Interval, Measurement, PairedRatio, Spread, Verdict
from specdec.metrics import E2E, STEP_GAP, TPOT, TTFT
from specdec.report.content import Cell, Tone, cell
from specdec.report.numbers import Number, Trace, decimals, duration, milliseconds, times
from specdec.runs.folder import Run

TONES: dict[str, Tone] = {"helps": "good", "hurts": "bad", "no difference": "quiet", "undecided": "quiet"}
"""How a decision is coloured; the word stands beside it always."""

SIGNS = {"helps": "\u25b2", "hurts": "\u25bc", "no difference": "=", "undecided": "?"}
"""The shape that stands before a decision's word."""

METRICS = {"tpot": TPOT, "ttft": TTFT, "e2e": E2E, "step_gap": STEP_GAP}
"""What one request contributes, by the name of its field in a measurement."""


@dataclass(frozen=True, slots=True)
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
            return cell("too few prompts", tone="quiet")
        ends = self.ends(
            f"ratio/tpot/{c.variant}/{c.against}/{c.test_case}",
            c.tpot.interval,
            self.trace.measured(c.test_case, c.variant, c.against),
        )
        return cell(ends[0], " to ", ends[1])

    def ends(self, key: str, interval: Interval, lines: list[int]) -> tuple[Number, Number]:
        """Both ends of a ratio's interval."""
        how = f"{100 * interval.level:.3g}% bootstrap interval, prompts resampled"
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
        words = {"equal": "", "nondeterminism": ", as the baseline itself", "differs": ", differs"}[p.state]
        return cell(equal, " of ", total, words, tone="bad" if p.state == "differs" else "plain")
