"""The verdict on one run: every number a report shows, as plain frozen values.

Times are seconds, money is US dollars. A ratio is baseline over speculative, so above 1 the speculative
variant is faster. None stands for "cannot be told from this run", never for zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from specdec.analysis.advice import DraftRow as DraftRow
from specdec.analysis.advice import WindowAdvice as WindowAdvice
from specdec.analysis.advice import WindowPoint as WindowPoint
from specdec.analysis.load_verdict import LoadVerdict as LoadVerdict
from specdec.analysis.phases import PhaseLevel as PhaseLevel
from specdec.analysis.progress import Progress as Progress
from specdec.analysis.sampled import SampledTest as SampledTest
from specdec.analysis.self_check_verdict import SelfCheck as SelfCheck

if TYPE_CHECKING:
    from specdec.catalog.prices import NodePrice

Decision = Literal["helps", "hurts", "no difference", "undecided"]
"""``no difference``: the interval of the ratio lies inside the margin that matters. ``helps``, ``hurts``: it
does not, and is wholly above or below 1. ``undecided``: it holds 1 and a difference that matters is not
excluded, or there is no interval."""

ParityState = Literal["same", "swaps", "differs", "not judged"]
"""``same``: every pair has the same text. ``swaps``: texts part where right decoders may: at near-ties, or no
sooner than the baseline's repeats part from each other, or they were followed and join again. ``differs``:
nothing explains it; the speed is withheld. ``not judged``: temperature above 0, no text read, or no pairs."""

ReasonCode = Literal[
    "unfinished",
    "seam",
    "same server",
    "other model",
    "other template",
    "no records",
    "failures",
    "unlike pairs",
    "no pairs",
    "no time per token",
    "buffered",
    "unread",
    "texts differ",
    "sampled",
    "other distribution",
    "loops",
    "within noise",
]
"""See ``specdec.analysis.gates``."""

StepSource = Literal["server-per-request", "client-chunks", "client-bursts"]
"""Where tokens per step come from: the server's accepted-token count of each request; one stream chunk per
step; chunks of one burst (see ``specdec.metrics.steps``) taken as one step."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval.

    Attributes:
        low, high: its ends.
        level: confidence, 0 to 1, of this interval by itself.
    """

    low: float
    high: float
    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One metric over the measured requests of a variant and test case, seconds.

    Attributes:
        requests: requests with a value.
        prompts: different prompts among them.
        mean, median, p10, p90: over requests.
    """

    requests: int
    prompts: int
    mean: float
    median: float
    p10: float
    p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """Baseline over variant for one metric, paired by (prompt, repeat).

    Attributes:
        value: geometric mean over prompts of the geometric mean over repeats.
        interval: see ``specdec.analysis.significance``; None where ``unknown`` says why.
        prompts: different prompts.
        pairs: (prompt, repeat) pairs.
        needed_prompts: prompts at which a true difference of the margin is found with 90% power; None without
            a spread to go by.
        more_prompts: how many of these are still missing; 0 when the decision stands.
        blocks: blocks that the pairs ran in.
        unknown: what the design cannot show, so that there is no interval: ``prompts`` with fewer than three,
            ``blocks`` where requests ran together and no row has two blocks, ``phases`` where variants were
            served one after the other and too seldom; None where there is one.
        more_repeats: in a run of phases, how many repeats are still missing, instead of prompts; 0 when the
            decision stands, None where nobody can tell.
    """

    value: float
    interval: Interval | None
    prompts: int
    pairs: int
    needed_prompts: int | None
    more_prompts: int | None
    blocks: int = 0
    unknown: Literal["prompts", "blocks", "phases"] | None = None
    more_repeats: int | None = None

    @property
    def no_interval(self) -> str:
        """Why there is no interval, in three words."""
        return f"too few {self.unknown or 'prompts'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where the texts of one pair first differ.

    Attributes:
        prompt, repeat: the pair.
        position: characters that are equal before it.
        length: characters of the baseline's text.
        baseline, variant: how each goes on, at most 60 characters.
        near_tie: whether the baseline's two best tokens were nearly equal there; None without
            log-probabilities.
    """

    prompt: str
    repeat: int
    position: int
    length: int
    baseline: str
    variant: str
    near_tie: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Whether both variants gave the same text.

    Attributes:
        state: see ``ParityState``.
        equal, total: pairs with equal text, and all pairs.
        self_equal, self_total: the same for repeats of the baseline against its own first repeat; 0 of 0 with
            one repeat.
        differences: one per differing pair, earliest first.
        near_tie_gap: gap in log-probability up to which two tokens count as nearly equal.
        because: what explains differences, or that nothing does, in words; empty where there are none.
        followed: tokens that were compared by following texts along the baseline; 0 where none was.
        swaps: of these, the different ones.
        rate: swaps per token, with its interval; None where nothing was followed.
        largest_gap: of a swap, in log-probability; None where the server tells none.
    """

    state: ParityState
    equal: int
    total: int
    self_equal: int
    self_total: int
    differences: tuple[Difference, ...]
    near_tie_gap: float
    because: str = ""
    followed: int = 0
    swaps: int = 0
    rate: Interval | None = None
    largest_gap: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionAcceptance:
    """Acceptance at one position of the window.

    Attributes:
        position: 1 for the first proposed token.
        reached: steps whose earlier proposals were all accepted.
        accepted: of these, the steps in which this one was accepted too.
        conditional: ``accepted / reached``.
        survival: share of all steps in which this and all earlier positions were accepted.
    """

    position: int
    reached: int
    accepted: int
    conditional: float
    survival: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """How far proposals were kept.

    Attributes:
        tokens_per_step: mean tokens a step emitted; 1 for a plain variant. Also called acceptance length.
        source: see ``StepSource``.
        steps: steps counted.
        histogram: (tokens, steps) pairs, ascending; empty where only totals are known.
        by_position: per position of the window; empty where only totals are known.
        rate: pooled conditional acceptance; None for a plain variant.
        proposed, accepted: tokens by the server's count; None where it gives none.
        drafted_steps: steps that had proposals to verify, by the server's count, or its proposed tokens over
            the run's mean proposal; None where it gives none.
    """

    tokens_per_step: float
    source: StepSource
    steps: int
    histogram: tuple[tuple[int, int], ...]
    by_position: tuple[PositionAcceptance, ...]
    rate: float | None
    proposed: int | None
    accepted: int | None
    drafted_steps: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCost:
    """What a million output tokens cost at the measured throughput.

    Attributes:
        tokens_per_second: output tokens of the whole service.
        in_flight: mean requests in flight while the variant was loaded.
        share_usd: for the share of the node the variant's devices are.
        node_usd: for the whole node, the rest of it idle.
    """

    tokens_per_second: float
    in_flight: float
    share_usd: float
    node_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One variant on one test case.

    Attributes:
        variant, test_case, prompt_class: whose.
        outcomes: (outcome, requests) pairs, warm-up left out; all but ``ok`` are failures.
        tpot, ttft, e2e, step_gap: seconds; ``step_gap`` is the time between steps, as a user sees it.
        acceptance: tokens per step and acceptance by position.
        cost: None without a price.
    """

    variant: str
    test_case: str
    prompt_class: str
    outcomes: tuple[tuple[str, int], ...]
    tpot: Spread | None
    ttft: Spread | None
    e2e: Spread | None
    step_gap: Spread | None
    acceptance: Acceptance | None
    cost: TokenCost | None

    @property
    def failures(self) -> int:
        """Requests that did not end ``ok``."""
        return sum(count for outcome, count in self.outcomes if outcome != "ok")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a row does not count, or what to know about one that does.

    Attributes:
        code: which gate.
        withholds: whether the row does not count.
        says: what is wrong, as part of a sentence.
    """

    code: ReasonCode
    withholds: bool
    says: str


@dataclass(frozen=True, slots=True)
class Side:
    """What became of the requests of one variant on one test case.

    Attributes:
        requests: sent, warm-up left out.
        ok: that ended as asked.
        loops: of these, answers that end in a loop.
        outcomes: (outcome, requests) pairs.
    """

    requests: int
    ok: int
    loops: int
    outcomes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One variant against a baseline on one test case.

    Attributes:
        variant, against: variant names; ``against`` is always a baseline.
        temperature: the highest of the pairs.
        best_baseline: whether ``against`` is the baseline with the lowest TPOT on this test case.
        decision: from the TPOT ratio, see ``Decision``.
        counts: whether the row may carry the overall sentence: no reason withholds it.
        worthwhile: whether speculation is advised: the row counts, helps, its best estimate is at least the
            margin, and the time in sum does not grow.
        reasons: see ``Reason``.
        baseline_side, variant_side: what became of the requests.
        unlike_pairs: pairs left out, since they differ in more than the variant.
        tpot, ttft, e2e: ratios; above 1 the variant is faster.
        fleet: ratio of the sums of time per token, whole requests: what a bill follows.
        noise: by how much the baseline's repeats differ from each other, as a ratio of at least 1; None with
            one repeat. A difference within it is undecided.
        floor: the noise floor that the decision was held against: the larger of ``noise`` and that of
            ``Verdict.self_check``; None where neither is known.
        parity: of the texts.
        says: the row in one sentence.
    """

    variant: str
    against: str
    test_case: str
    prompt_class: str
    best_baseline: bool
    decision: Decision
    counts: bool
    worthwhile: bool
    reasons: tuple[Reason, ...]
    baseline_side: Side
    variant_side: Side
    unlike_pairs: int
    tpot: PairedRatio | None
    ttft: PairedRatio | None
    e2e: PairedRatio | None
    fleet: PairedRatio | None
    noise: float | None
    floor: float | None
    parity: Parity
    says: str
    temperature: float = 0.0

    @property
    def label(self) -> str:
        """What the row is called: its test case, and the temperature where it is above 0."""
        return f"{self.test_case}, temperature {self.temperature:g}" if self.temperature else self.test_case


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSummary:
    """One variant on all test cases of a prompt class, against the best baseline of each."""

    prompt_class: str
    variant: str
    test_cases: tuple[str, ...]
    decision: Decision
    tpot: PairedRatio | None
    tokens_per_step: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """One variant over all rows that count, every prompt weighing the same.

    Attributes:
        variant: whose.
        tpot: geometric mean ratio: what a user may expect for one prompt.
        fleet: ratio of sums of time per token: what the bill follows.
    """

    variant: str
    tpot: PairedRatio | None
    fleet: PairedRatio | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """How close a variant comes to the memory-bandwidth limit of its devices.

    Attributes:
        variant: whose.
        limit_tpot: seconds to read weights and KV cache once, the least a plain step can take.
        tpot: measured mean over test cases, seconds.
        share: ``limit_tpot / tpot``. For a speculative variant a value above 1 is possible: one read serves
            several tokens.
        says: what that means, one sentence.
    """

    variant: str
    limit_tpot: float
    tpot: float
    share: float
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Everything that follows from one run.

    Attributes:
        run, experiment, configuration_hash: from the manifest.
        status: from the manifest; a run that is not ``complete`` has numbers but no decision.
        sentence: the answer for someone who reads nothing else.
        baselines, speculative: variant names; the first baseline is the experiment's.
        test_cases: in the order of the records.
        margin: relative difference in TPOT that matters; smaller ones count as none.
        level: confidence with which all rows of ``comparisons`` hold together.
        measurements: variants and test cases, test case by test case.
        comparisons: each variant against the first baseline and, where another baseline is faster, against
            that too.
        classes, overall, windows, drafts, rooflines: see their types. for each draft, ``windows`` has every
            test case and then the mix.
        prices: what ``TokenCost`` is made of, (variant, price) pairs; a variant without a price is left out.
        convention: name of the step arithmetic.
        environment: as the manifest gives it.
        sources: what each kind of number was taken from, (number, source) pairs.
        caveats: what limits the verdict, a sentence each, the gravest first.
        load: the load that all of the above is about, the lowest one of a run with several; None for a run
            of one load.
        loads: up to which load it pays; None for a run of one load.
        phases: of a run that serves one variant after the other; else empty.
        sampled: tests of short answers above temperature 0, where such were asked for.
        self_check: the baseline against itself; None where the run did not measure that.
        progress: how far the run came; None for a complete one.
    """

    run: str
    experiment: str
    configuration_hash: str
    status: str
    sentence: str
    baselines: tuple[str, ...]
    speculative: tuple[str, ...]
    test_cases: tuple[str, ...]
    margin: float
    level: float
    measurements: tuple[Measurement, ...]
    comparisons: tuple[Comparison, ...]
    classes: tuple[ClassSummary, ...]
    overall: tuple[Overall, ...]
    windows: tuple[WindowAdvice, ...]
    drafts: tuple[DraftRow, ...]
    rooflines: tuple[Roofline, ...]
    prices: tuple[tuple[str, NodePrice], ...]
    convention: str
    environment: dict[str, Any]
    sources: tuple[tuple[str, str], ...]
    caveats: tuple[str, ...]
    load: float | None = None
    loads: LoadVerdict | None = None
    phases: tuple[PhaseLevel, ...] = ()
    sampled: tuple[SampledTest, ...] = ()
    self_check: SelfCheck | None = None
    progress: Progress | None = None

    def measurement(self, variant: str, test_case: str) -> Measurement | None:
        """The measurement of one variant on one test case, if there is one."""
        return next((m for m in self.measurements if (m.variant, m.test_case) == (variant, test_case)), None)
