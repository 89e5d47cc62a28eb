"""The window model: from one measured window to the time per token at every other.

The measured steps say at which positions of each text the draft was right; ``replay`` gives from these the
steps of every window, prompt by prompt. Where the target's own token after a full window hid a position, it
is drawn from its neighbourhood. What a step costs at another window is ``step_cost``'s.

Look-up drafting proposes nothing where it finds no match. Of the steps that emit one token, the measured
share then stays plain at every window::

    TPOT(k) = t0 * (plain(k) + drafted(k) * cost(k)) / tokens
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from specdec.analysis.conventions import Floats
from specdec.analysis.observation import Observation, resampled
from specdec.analysis.replay import counted_steps, fill, local_rate, reveal, runs
from specdec.analysis.step_cost import StepCost, fit_cost
from specdec.catalog.conventions import Convention

LARGEST = 15
"""Largest window that is predicted: the largest the published experiment tried."""

DRAWS = 400
SEED = 20260415

FILLS = 8
"""Times that positions which the measured window hid are drawn anew, where a test case has few requests."""

ENOUGH_FILLED = 100
"""Requests of a test case from which each is filled once, since they average what is drawn."""


@dataclass(frozen=True, slots=True)
class Model:
    """Fitted window model. Arrays have one row per draw, the estimate first, and one column per window of
    ``windows()``.

    Attributes:
        convention: of the stack.
        baseline: ``t0``, seconds per plain step; one value per draw.
        steps: steps per token.
        plain: of these, the ones that had nothing to verify.
        cost: of a step that verifies a window, in plain steps.
        kinds: number of the shape that the cost of each draw has, the estimate left out.
        fixed, slope: the line that fits the measured costs best.
        rate: proposals kept over proposals reached, as measured.
        undrafted: share of tokens from steps that had nothing to verify, as measured.
    """

    convention: Convention
    baseline: Floats
    steps: Floats
    plain: Floats
    cost: Floats
    kinds: NDArray[np.int64]
    fixed: float
    slope: float
    rate: float
    undrafted: float

    def windows(self) -> range:
        """Windows that can emit more than one token per step, up to ``LARGEST``."""
        return range(self.convention.smallest, LARGEST + 1)

    def tokens_per_step(self, window: int) -> Floats:
        """Expected tokens per step, plain ones among them."""
        result: Floats = 1 / self.steps[:, window - self.windows().start]
        return result

    def step_cost(self, window: int) -> Floats:
        """Time of a step that verifies proposals, in plain steps."""
        return self.cost[:, window - self.windows().start]

    def curve(self) -> Floats:
        """Seconds per token."""
        result: Floats = self.baseline[:, None] * (self.plain + (self.steps - self.plain) * self.cost)
        return result

    def tpot(self, window: int) -> Floats:
        """Seconds per token at one window."""
        return self.curve()[:, window - self.windows().start]


def fit(
    observations: Sequence[Observation], convention: Convention, *, draws: int = DRAWS, seed: int = SEED
) -> Model:
    """Fits the model to one or more windows measured on the same prompts with the same draft.

    Args:
        observations: at least one.
        convention: of the stack.
        draws: resamplings of the prompts and of the shape of the cost; 0 for the estimate alone.
        seed: of the resampling.
    """
    rng = np.random.default_rng(seed)
    windows = range(convention.smallest, LARGEST + 1)
    weights = [resampled(len(observation.steps), draws, rng) for observation in observations]
    pairs = list(zip(weights, observations, strict=True))
    extra = [observation.costs(weight) - 1 for weight, observation in pairs]
    fills = [observation.fill for observation in observations]
    cost: StepCost = fit_cost(
        [observation.window * observation.fill for observation in observations],
        np.stack(extra, axis=1),
        [window * float(np.mean(fills)) for window in windows],
        # The same shapes for every test case: their cost is one.
        np.random.default_rng([seed, 1]),
    )
    counted = [_replayed(observation, convention, windows, rng) for observation in observations]
    shares = [_plain_share(observation) for observation in observations]
    columns: list[tuple[Floats, Floats]] = []
    for place, window in enumerate(windows):
        number = _source(window, [observation.window for observation in observations])
        weight, observation = pairs[number]
        tokens = weight @ observation.tokens
        sizes, single = counted[number][0][:, place], counted[number][1][:, place]
        plain = single * shares[number]
        columns.append((weight @ sizes / tokens, weight @ plain / tokens))
    first = observations[0]
    return Model(
        convention=convention,
        baseline=np.mean([w @ o.baseline / w.sum(axis=1) for w, o in pairs], axis=0),
        steps=np.stack([column[0] for column in columns], axis=1),
        plain=np.stack([column[1] for column in columns], axis=1),
        cost=np.vstack([cost.estimate, cost.draws]),
        kinds=cost.kinds,
        fixed=cost.fixed,
        slope=cost.slope,
        rate=_rate(observations, convention),
        undrafted=float((first.steps - first.drafted).sum() / first.tokens.sum()),
    )


def _source(window: int, measured: Sequence[int]) -> int:
    """The measured window that says most about ``window``: itself, else the next larger, else the largest."""
    larger = [(other, number) for number, other in enumerate(measured) if other >= window]
    return min(larger)[1] if larger else max((other, number) for number, other in enumerate(measured))[1]


def _replayed(
    observation: Observation, convention: Convention, windows: range, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Steps, and steps of one token, by prompt and window."""
    usable = convention.usable(observation.window)
    count, single = (np.zeros((len(observation.sequences), len(windows))) for _ in range(2))
    prior = _rate([observation], convention)
    # Many requests average what is drawn by themselves; a few are drawn several times.
    asked = sum(len(requests) for requests in observation.sequences)
    fills = max(1, min(FILLS, ENOUGH_FILLED // max(1, asked)))
    texts = [
        (row, sizes)
        for row, requests in enumerate(observation.sequences)
        for sizes in requests
        for _ in range(fills)
    ]
    rows = [row for row, _ in texts]
    counts = np.asarray([len(sizes) for _, sizes in texts])
    flat = np.fromiter(chain.from_iterable(sizes for _, sizes in texts), dtype=np.int64)
    lengths = np.add.reduceat(flat, np.cumsum(counts) - counts)
    revealed = reveal(flat, usable, counts)
    kept = runs(fill(revealed, local_rate(revealed, lengths, prior=prior), rng), lengths)
    other = [place for place, window in enumerate(windows) if window != observation.window]
    replayed = counted_steps(kept, lengths, [convention.usable(windows[place]) for place in other])
    for total, part in zip((count, single), replayed, strict=True):
        for column, place in enumerate(other):
            total[:, place] = np.bincount(rows, part[:, column], minlength=len(total)) / fills
    for place in set(range(len(windows))) - set(other):
        count[:, place] = [sum(map(len, requests)) for requests in observation.sequences]
        single[:, place] = _single(observation)
    return count, single


def _single(observation: Observation) -> list[int]:
    """Steps of one token by prompt."""
    return [sum(sizes.count(1) for sizes in requests) for requests in observation.sequences]


def _plain_share(observation: Observation) -> Floats:
    """Of each prompt's steps of one token, the share that had nothing to verify."""
    single = np.maximum(_single(observation), 1.0)
    share: Floats = np.minimum(1.0, (observation.steps - observation.drafted) / single)
    return share


def _rate(observations: Sequence[Observation], convention: Convention) -> float:
    """Proposals kept over proposals reached: one is wrong in every drafted step that was not kept whole."""
    kept = wrong = 0.0
    for observation in observations:
        totals: Floats = observation.sizes.sum(axis=0)
        kept += float(totals @ np.arange(len(totals)))
        cut = float(totals[: convention.usable(observation.window)].sum())
        wrong += max(0.0, cut - float((observation.steps - observation.drafted).sum()))
    return kept / (kept + wrong) if kept + wrong > 0 else 0.0
