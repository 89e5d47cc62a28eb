"""The window model: from one measured window to the time per token at every other.

A step that verifies the proposals of a window ``k`` takes ``1 + f + c k`` plain steps and emits ``1 + S_1 +
... `` tokens, where ``S_i`` is the chance that the first ``i`` proposals are all accepted. Acceptance at a
position does not depend on the window, so the positions measured at one window serve all smaller ones
exactly, and larger ones by going on as the last positions do. With one window measured ``f`` is taken as 0
(Leviathan et al., arXiv 2211.17192, section 3.2: cost ``1 + k c``); a second one separates it from ``c``.
Here ``c`` is what one more position costs, drafting and verification together.

Look-up drafting proposes nothing where it finds no match. A share ``u`` of the tokens then comes from plain
steps, whatever the window::

    TPOT(k) = t0 * (u + (1 - u) * (1 + f + c k) / (1 + S_1 + ... ))

With ``u = 0`` and constant acceptance this is the textbook formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specdec.analysis.conventions import Floats
from specdec.analysis.observation import Observation
from specdec.catalog.conventions import Convention

LARGEST = 15
"""Largest window that is predicted: the largest the published experiment tried."""

DRAWS = 400
SEED = 20260415

PRIOR_STEPS = 10
"""Steps that the pooled acceptance weighs as against those of one position: late positions are reached
seldom.
"""

FIXED_SHARE = 0.3
"""With one window measured, up to this share of the extra step cost may be fixed; resampling draws it evenly
from 0 to here. Neuron's EAGLE 3 rows (window 1 costs 1.40 plain steps, window 3 costs 1.96) put an eighth of
it there."""


@dataclass(frozen=True, slots=True)
class Model:
    """Fitted window model. Every array has one entry per draw, the point estimate first.

    Attributes:
        convention: of the stack.
        baseline: ``t0``, seconds per plain step.
        fixed: ``f``.
        slope: ``c``.
        undrafted: ``u``.
        survival: ``S_1 ...`` along the second axis.
        rate: pooled conditional acceptance.
        fill: proposed tokens over the window.
    """

    convention: Convention
    baseline: Floats
    fixed: Floats
    slope: Floats
    undrafted: Floats
    survival: Floats
    rate: Floats
    fill: float

    def windows(self) -> range:
        """Windows that can emit more than one token per step, up to ``LARGEST``."""
        return range(self.convention.smallest, LARGEST + 1)

    def tokens_per_step(self, window: int) -> Floats:
        """Expected tokens per step, plain ones among them."""
        drafted = self.convention.tokens(window, self.survival)
        # A share u of tokens takes one step each, the rest as many as drafted steps need.
        return 1 / (self.undrafted + (1 - self.undrafted) / drafted)

    def step_cost(self, window: int) -> Floats:
        """Time of a step that verifies proposals, in plain steps."""
        return 1 + self.fixed + self.slope * window * self.fill

    def tpot(self, window: int) -> Floats:
        """Seconds per token."""
        drafted = self.convention.tokens(window, self.survival)
        return self.baseline * (self.undrafted + (1 - self.undrafted) * self.step_cost(window) / drafted)

    def curve(self) -> Floats:
        """Seconds per token: one row per draw, one column per window of ``windows()``."""
        return np.stack([self.tpot(window) for window in self.windows()], axis=1)


def fit(
    observations: Sequence[Observation], convention: Convention, *, draws: int = DRAWS, seed: int = SEED
) -> Model:
    """Fits the model to one or more windows measured on the same prompts with the same draft.

    Args:
        observations: at least one.
        convention: of the stack.
        draws: resamplings of the prompts; 0 for the point estimate alone.
        seed: of the resampling.
    """
    rng = np.random.default_rng(seed)
    weights = [_weights(len(observation.steps), draws, rng) for observation in observations]
    share = np.concatenate([[0.0], rng.uniform(0, FIXED_SHARE, draws)])
    baseline = np.mean(
        [w @ o.baseline / w.sum(axis=1) for w, o in zip(weights, observations, strict=True)], axis=0
    )
    undrafted: list[Floats] = []
    extra: list[Floats] = []
    for weight, observation in zip(weights, observations, strict=True):
        drafted = np.maximum(weight @ observation.drafted, 1e-9)
        plain = weight @ (observation.steps - observation.drafted)
        local = weight @ observation.baseline / weight.sum(axis=1)
        undrafted.append(plain / (weight @ observation.tokens))
        extra.append(np.maximum((weight @ observation.seconds / local - plain) / drafted - 1, 0.0))
    positions = [observation.window * observation.fill for observation in observations]
    fixed, slope = _cost(np.asarray(positions), np.stack(extra, axis=1), share)
    survival, rate = _survival(weights, observations, convention)
    return Model(
        convention=convention,
        baseline=baseline,
        fixed=fixed,
        slope=slope,
        undrafted=np.mean(undrafted, axis=0),
        survival=survival,
        rate=rate,
        fill=float(np.mean([observation.fill for observation in observations])),
    )


def _weights(prompts: int, draws: int, rng: np.random.Generator) -> Floats:
    counts = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=draws).astype(np.float64)
    return np.concatenate([np.ones((1, prompts)), counts])


def _cost(positions: Floats, extra: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Fixed part and slope of the extra cost, neither below 0: least squares over windows, or the drawn share
    with only one.
    """
    if len(set(positions)) < 2:
        mean = extra.mean(axis=1)
        return share * mean, (1 - share) * mean / positions.mean()
    centered = positions - positions.mean()
    slope = np.maximum((extra @ centered) / (centered @ centered), 0.0)
    fixed = extra.mean(axis=1) - slope * positions.mean()
    through_origin = extra @ positions / (positions @ positions)
    return np.maximum(fixed, 0.0), np.where(fixed < 0, through_origin, slope)


def _survival(
    weights: Sequence[Floats], observations: Sequence[Observation], convention: Convention
) -> tuple[Floats, Floats]:
    longest = max(convention.usable(observation.window) for observation in observations)
    draws = len(weights[0])
    reached, accepted = np.zeros((draws, longest)), np.zeros((draws, longest))
    for weight, observation in zip(weights, observations, strict=True):
        sizes = weight @ observation.sizes
        # Steps without proposals emitted one token and tell nothing about acceptance.
        every = weight @ observation.steps
        plain = (every - weight @ observation.drafted) / every * sizes.sum(axis=1)
        sizes[:, 0] = np.maximum(sizes[:, 0] - plain, 0.0)
        at_least = sizes[:, ::-1].cumsum(axis=1)[:, ::-1]
        usable = convention.usable(observation.window)
        reached[:, :usable] += at_least[:, :usable]
        accepted[:, :usable] += at_least[:, 1 : usable + 1]
    rate = accepted.sum(axis=1) / np.maximum(reached.sum(axis=1), 1e-9)
    conditional = (accepted + PRIOR_STEPS * rate[:, None]) / (reached + PRIOR_STEPS)
    last = slice(max(0, longest - 3), longest)
    tail = (accepted[:, last].sum(axis=1) + PRIOR_STEPS * rate) / (reached[:, last].sum(axis=1) + PRIOR_STEPS)
    beyond = np.repeat(tail[:, None], max(0, LARGEST - longest), axis=1)
    return np.concatenate([conditional, beyond], axis=1).cumprod(axis=1), rate


def break_even(convention: Convention, window: int, *, cost: float) -> float | None:
    """Constant acceptance at which a window starts to pay: tokens per step equal the step's cost. None if
    none does.

    Args:
        convention: of the stack.
        window: num_speculative_tokens.
        cost: of a step that verifies the window, in plain steps.
    """
    return _acceptance_reaching(cost, lambda rate: constant_tokens(convention, window, rate))


def constant_tokens(convention: Convention, window: int, rate: float) -> float:
    """Tokens per step with constant acceptance ``rate``."""
    return float(convention.tokens(window, rate ** np.arange(1, window + 1, dtype=np.float64)))


def best_speedup(convention: Convention, rate: float, *, slope: float, fixed: float = 0.0) -> float:
    """Largest speed-up over all windows with constant acceptance; 1 where speculation is better left off."""
    windows = range(convention.smallest, LARGEST + 1)
    return max(1.0, *(constant_tokens(convention, k, rate) / (1 + fixed + slope * k) for k in windows))


def acceptance_for(
    convention: Convention, speedup: float, *, slope: float, fixed: float = 0.0
) -> float | None:
    """Constant acceptance at which the best window gives ``speedup``; None if none does."""
    return _acceptance_reaching(
        speedup, lambda rate: best_speedup(convention, rate, slope=slope, fixed=fixed)
    )


def _acceptance_reaching(goal: float, reached: Callable[[float], float]) -> float | None:
    if reached(1.0) < goal:
        return None
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < goal else (low, middle)
    return high
