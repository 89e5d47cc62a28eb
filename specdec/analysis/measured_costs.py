"""The cost of a step in a run, for each measured window, however many proposals were kept.

A graph that verifies a window takes the same time whether its proposals are right or wrong. So any draft of
the right size tells the cost of a step, without being a good one: the times between the steps of a
speculative service over those of a plain one, on the same prompts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specdec.analysis.conventions import Floats
from specdec.analysis.judge import RunJudge
from specdec.analysis.observation import observe, resampled
from specdec.analysis.significance import MIN_PROMPTS
from specdec.runs.manifest import RunManifest
from specdec.runs.record import RequestRecord

DRAWS = 400
SEED = 20261202


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCost:
    """Cost of a step of one variant.

    Attributes:
        variant: its name.
        draft: draft model, or what the engine drafts with.
        window: num_speculative_tokens.
        plain: seconds of a plain step on the same prompts.
        cost: of a step that verifies the window, in plain steps.
        draws: the same over other prompts of the kind (prompts resampled).
        steps: that verified something.
        prompts: that tell it.
        tokens_per_step: of these steps. 1 where nothing was kept.
    """

    variant: str
    draft: str | None
    window: int
    plain: float
    cost: float
    draws: Floats
    steps: int
    prompts: int
    tokens_per_step: float

    @property
    def band(self) -> tuple[float, float]:
        """5th and 95th percentile."""
        low, high = np.quantile(self.draws, [0.05, 0.95]).tolist()
        return low, high


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Costs of a run.

    Attributes:
        costs: one per speculative variant whose steps can be told, windows ascending.
        reasons: why others are not among them, by variant.
    """

    costs: tuple[MeasuredCost, ...]
    reasons: dict[str, str]

    @property
    def plain(self) -> float | None:
        """Seconds of a plain step, mean over the variants' prompts; None where nothing was told."""
        return float(np.mean([one.plain for one in self.costs])) if self.costs else None


def costs_of(manifest: RunManifest, records: tuple[RequestRecord, ...]) -> StepCosts:
    """Reads the cost of a step of every speculative variant, at the lowest load that was measured.

    Args:
        manifest: of the run.
        records: of the run.
    """
    exact = [record for record in records if record.lane == "exact" and not record.warmup]
    lowest = min((record.load for record in exact), default=1)
    judge = RunJudge(manifest, [record for record in exact if record.load == lowest], None, None)
    costs: list[MeasuredCost] = []
    reasons: dict[str, str] = {} if judge.baselines else dict.fromkeys(judge.speculative, "no baseline")
    for variant in judge.speculative if judge.baselines else ():
        cost = _cost(judge, variant)
        if isinstance(cost, str):
            reasons[variant] = cost
        else:
            costs.append(cost)
    return StepCosts(tuple(sorted(costs, key=lambda one: one.window)), reasons)


def _cost(judge: RunJudge, variant: str) -> MeasuredCost | str:
    window = judge.window(variant)
    if window is None:
        return "its window is not known; specdec bench takes it from --window NAME=K"
    if judge.sources[variant] is None:
        return "its steps cannot be told apart: its server counts at the end alone, or joins steps"
    records = judge.of(variant)
    observation = observe(
        judge.of(judge.baselines[0]),
        records,
        convention=judge.convention,
        window=window,
        counters=judge.manifest.server_counters.get(variant),
        every=records,
    )
    prompts = 0 if observation is None else len(observation.steps)
    if observation is None or prompts < MIN_PROMPTS:
        return f"{prompts} prompts are too few to tell; {MIN_PROMPTS} are needed"
    if observation.drafted.sum() <= 0:
        return "nothing was ever proposed"
    plain = float((observation.steps - observation.drafted).sum())
    costs = observation.costs(resampled(prompts, DRAWS, np.random.default_rng(SEED)))
    drafted = float(observation.drafted.sum())
    return MeasuredCost(
        variant=variant,
        draft=judge.manifest.variants[variant].get("draft"),
        window=window,
        plain=float(observation.baseline.mean()),
        cost=float(costs[0]),
        draws=costs[1:],
        steps=int(drafted),
        prompts=prompts,
        tokens_per_step=float((observation.tokens.sum() - plain) / drafted),
    )
