"""The part of the verdict that is about load. Units and ratios as in ``specdec.analysis.verdict``.

A load is a number of requests in flight, or of requests per second. Nothing is said of loads outside those
that were measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from specdec.metrics.objective import Objective
from specdec.runs.point import Point

if TYPE_CHECKING:
    from specdec.analysis.verdict import Decision, PairedRatio

LoadUnit = Literal["in flight", "per second"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One variant at one load, on the prompts of a class, against the best baseline there.

    Attributes:
        load: the load.
        ratio: TPOT of the baseline over the variant's, paired by prompt; None without a pair that counts.
        decision: from the ratio.
        tokens_per_step: of the variant; None where it cannot be told.
        excluded: test cases that do not count at this load, since their texts differ without an explanation.
    """

    load: float
    ratio: PairedRatio | None
    decision: Decision
    tokens_per_step: float | None
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Where a variant turns from faster to slower, or back, between two loads at which it is told.

    Attributes:
        load: estimate.
        low, high: its interval: at ``low`` the first is still told, at ``high`` the second is.
        downward: from faster to slower.
    """

    load: float
    low: float
    high: float
    downward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """One variant on a class of prompts, over all loads.

    Attributes:
        variant, prompt_class: whose.
        points: loads ascending.
        helps_up_to: highest measured load at which it helps; None where it helps at none.
        hurts_from: lowest measured load at which it hurts; None where it hurts at none.
        crossings: ascending; empty where none can be told.
        says: the row in one sentence.
    """

    variant: str
    prompt_class: str
    points: tuple[LoadPoint, ...]
    helps_up_to: float | None
    hurts_from: float | None
    crossings: tuple[Crossing, ...]
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What one variant's service gave at one load, on all test cases together.

    Attributes:
        variant, load: whose.
        tokens_per_second: output tokens of the service, fillers' included.
        tokens_per_second_user: of one request: 1 over the median TPOT.
        requests_per_second: that ended.
        kept: share of the requests that kept the objective; None without one.
        strain: the objective's share as a quantile of ``Objective.strain``: 1 or less keeps the objective.
        goodput: requests per second that kept it.
        usd_per_million: output tokens, for the variant's share of the node; None without a price.
        point: the run's own account of it; None in a run that keeps none.
    """

    variant: str
    load: float
    tokens_per_second: float
    tokens_per_second_user: float | None
    requests_per_second: float
    kept: float | None
    strain: float | None
    goodput: float | None
    usd_per_million: float | None
    point: Point | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The largest load that a variant carries within the objective.

    Attributes:
        variant: whose.
        load: estimate; None where the objective is missed at the lowest load already.
        at_least: whether it is kept at every measured load, so that the true capacity may be larger.
        low, high: interval of ``load``, prompts resampled; None with fewer than three prompts or where
            ``load`` is None.
        ratio: over the first baseline's capacity; None for that baseline, and where either cannot be told.
        ratio_low, ratio_high: its interval.
        usd_per_million: output tokens at this load, for the variant's share of the node.
    """

    variant: str
    load: float | None
    at_least: bool
    low: float | None
    high: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    usd_per_million: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWindow:
    """The window to use at one number of requests in flight, on the mix of test cases.

    Attributes:
        load: requests in flight.
        measured: whether it is one of the loads that the model was fitted on.
        window: recommended; None for "off".
        best: the same, or the window that would be if it paid.
        baseline_tpot: predicted, seconds.
        speedup: predicted TPOT of the baseline over that of ``best``.
        low, high: 5th and 95th percentile of it, over prompts and shapes of the step's cost.
        confidence: share of draws in which the recommendation is within 3% of the best choice, under the
            shape of step cost that speaks most against it.
    """

    load: float
    measured: bool
    window: int | None
    best: int
    baseline_tpot: float
    speedup: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsOverLoad:
    """Which window to use at which load, for one draft; see ``specdec.analysis.load_model``.

    Attributes:
        variants: the speculative variants that were measured with this draft, one per window.
        draft: draft model, or what the engine drafts with.
        measured_windows: ascending, in the order of ``variants``.
        fitted: loads that the model was fitted on.
        roofline: whether bytes and operations of the catalogue are in it.
        rows: loads ascending, none outside those that were measured.
        off_above: the highest load at which it pays, where it pays at none above it; None where it pays at
            all or at none, or in turn.
        confirm: the window to measure next over the same loads; None when nothing is left to confirm.
        says: in one sentence, and how to do it.
    """

    variants: tuple[str, ...]
    draft: str | None
    measured_windows: tuple[int, ...]
    fitted: tuple[float, ...]
    roofline: bool
    rows: tuple[LoadWindow, ...]
    off_above: float | None
    confirm: int | None
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadVerdict:
    """Up to which load it pays.

    Attributes:
        unit: of every load.
        loads: measured, ascending.
        level: confidence with which all points of ``rows`` hold together.
        rows: speculative variants and classes.
        served: variants and loads.
        objective: None without limits.
        capacities: one per variant; empty without an objective.
        sentence: the answer for someone who reads nothing else.
        caveats: what limits it.
        windows: which window at which load, one per draft; empty for loads per second.
    """

    unit: LoadUnit
    loads: tuple[float, ...]
    level: float
    rows: tuple[LoadRow, ...]
    served: tuple[Served, ...]
    objective: Objective | None
    capacities: tuple[Capacity, ...]
    sentence: str
    caveats: tuple[str, ...]
    windows: tuple[WindowsOverLoad, ...] = ()
