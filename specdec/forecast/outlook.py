"""From replayed answers to advice: tokens per step at every window, what a step may cost, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specdec.analysis.conventions import Floats
from specdec.analysis.replay import begins, expected_steps
from specdec.analysis.step_cost import fit_cost
from specdec.catalog.conventions import Convention
from specdec.forecast.bits import Kept, Positions
from specdec.forecast.lookup import LONGEST
from specdec.forecast.tokens import Tokens

DRAWS = 400
SEED = 20261201

WORTH = 1.05
"""Speed-up from which a window counts as a gain: reports call less no difference."""

MODEL_SLOPES = (0.10, 0.32)
"""Published extra cost per window position with a draft, in plain steps. Lowest: the published experiment
needs less than 0.19 for its threefold gain (docs/window.md). One Trainium2 chip: 1.58 and 1.63 plain steps at
window 3. Highest: Neuron's EAGLE 3 rows, 1.96 at window 3."""

LOOK_UP_SLOPES = (0.01, 0.20)
"""The same for look-up, which has only verification to pay: 0.2 to 0.7 ms per further token on steps of 19 to
50 ms (vllm-neuron features guide), up to what EAGLE 3's window costs in all on one chip."""

StepCostDraws = float | Floats
"""Cost of a step in plain steps: as told, or as measured and after it what it may be, one value per draw."""

Advice = Literal["rent", "measure", "leave"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """One window.

    Attributes:
        window: num_speculative_tokens.
        tokens_per_step: exact for these answers.
        pays_below: what a step that verifies may cost at most to pay, in plain steps.
        low, high: 5th and 95th percentile over other answers of the kind (prompts resampled).
        cost: of a step, in plain steps; None while none was measured.
        speedup: at that cost; None likewise.
        speedup_low, speedup_high: 5th and 95th percentile over other answers of the kind and what a step may
            cost; the upper one may exceed ``tokens_per_step``, which is of these answers.
    """

    window: int
    tokens_per_step: float
    pays_below: float
    low: float
    high: float
    cost: float | None
    speedup: float | None
    speedup_low: float
    speedup_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """One prompt at the window that is best for all.

    Attributes:
        id, group: of the answer.
        tokens_per_step: exact.
        tokens: of the answer.
    """

    id: str
    group: str
    tokens_per_step: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutlook:
    """Answers of one kind.

    Attributes:
        group: its name; None for all together.
        answers: how many.
        curve: windows ascending.
        thirds: share of positions where the proposal is right, in the first, middle and last third of the
            answers.
        window: the best one, by the middle of the band.
        advice: what to do with it.
        says: the same in a sentence.
    """

    group: str | None
    answers: int
    curve: tuple[Outlook, ...]
    thirds: tuple[float, float, float]
    window: int
    advice: Advice
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOutlook:
    """What one draft would bring.

    Attributes:
        draft: its name.
        rests_on: engine and weights.
        mix: all answers together.
        groups: by kind, where there are several.
        most, least: prompts that gain most and least at the mix's window.
        left_out: texts that this draft cannot read, by reason.
    """

    draft: str
    rests_on: str
    mix: GroupOutlook
    groups: tuple[GroupOutlook, ...]
    most: tuple[Gain, ...]
    least: tuple[Gain, ...]
    left_out: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The steps of one draft on all texts.

    Attributes:
        texts: that it could read.
        kept: per text and window, what is kept at each position.
        counts: steps, one row per text, one column per window.
        plain: of these, the ones that had nothing to verify.
        tokens: that the steps emitted, per text: all but the first of the answer.
    """

    texts: tuple[Tokens, ...]
    kept: tuple[Kept, ...]
    counts: Floats
    plain: Floats
    tokens: Floats


def replay_all(texts: Sequence[Tokens], kept: Sequence[Kept], convention: Convention) -> Replayed:
    """Steps of every text at every window of a convention, from its smallest to 15."""
    windows = range(convention.smallest, LONGEST + 1)
    counts, plain = np.zeros((len(texts), len(windows))), np.zeros((len(texts), len(windows)))
    for row, by_window in enumerate(kept):
        for column, window in enumerate(windows):
            positions = by_window[window]
            if positions.chance is not None:
                counts[row, column] = expected_steps(positions.chance, convention.usable(window))
                continue
            places = begins(positions.kept, convention.usable(window))
            counts[row, column] = len(places)
            if positions.proposes is not None:
                plain[row, column] = len(places) - positions.proposes[places].sum()
    tokens = np.asarray([len(text.written) - 1.0 for text in texts])
    return Replayed(tuple(texts), tuple(kept), counts, plain, tokens)


def look(
    draft: str,
    rests_on: str,
    replayed: Replayed,
    convention: Convention,
    *,
    slopes: tuple[float, float],
    costs: Mapping[int, StepCostDraws],
    left_out: Mapping[str, int],
    most: int = 10,
) -> DraftOutlook:
    """What a draft would bring.

    Args:
        draft: its name.
        rests_on: its engine and weights.
        replayed: its steps.
        convention: of the stack.
        slopes: band of the extra cost per window position, used while no step was measured.
        costs: cost of a step by window.
        left_out: texts that it could not read.
        most: prompts to name on either end.
    """
    names = [text.answer.group for text in replayed.texts]
    mix = _group(None, replayed, np.arange(len(names)), convention, slopes, costs)
    groups = [
        _group(name, replayed, np.flatnonzero(np.asarray(names) == name), convention, slopes, costs)
        for name in dict.fromkeys(names)
    ]
    column = mix.window - convention.smallest
    gains = sorted(
        (
            Gain(
                id=text.answer.id,
                group=text.answer.group,
                tokens_per_step=float(replayed.tokens[row] / replayed.counts[row, column]),
                tokens=len(text.written),
            )
            for row, text in enumerate(replayed.texts)
        ),
        key=lambda gain: -gain.tokens_per_step,
    )
    return DraftOutlook(
        draft=draft,
        rests_on=rests_on,
        mix=mix,
        groups=tuple(groups) if len(groups) > 1 else (),
        most=tuple(gains[:most]),
        least=tuple(gains[::-1][:most]),
        left_out=dict(left_out),
    )


def _group(
    name: str | None,
    replayed: Replayed,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    convention: Convention,
    slopes: tuple[float, float],
    costs: Mapping[int, StepCostDraws],
) -> GroupOutlook:
    rng = np.random.default_rng(SEED)
    windows = list(range(convention.smallest, LONGEST + 1))
    tokens, counts = replayed.tokens[rows], replayed.counts[rows]
    weights = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=DRAWS).astype(np.float64)
    plain = replayed.plain[rows]
    drafted = counts - plain
    point = tokens.sum() / counts.sum(axis=0)
    drawn: Floats = (weights @ tokens)[:, None] / (weights @ counts)
    cost, rates = _costs(windows, slopes, costs)
    speeds = (weights @ tokens)[:, None] / (weights @ plain + (weights @ drafted) * rates)
    exact = None if cost is None else tokens.sum() / (plain.sum(axis=0) + drafted.sum(axis=0) * cost)
    middle = np.median(speeds, axis=0) if exact is None else exact
    pays = (tokens.sum() - plain.sum(axis=0)) / np.maximum(drafted.sum(axis=0), 1)
    best = int(middle.argmax())
    curve = tuple(
        Outlook(
            window=window,
            tokens_per_step=float(point[i]),
            pays_below=float(pays[i]),
            low=float(np.quantile(drawn[:, i], 0.05)),
            high=float(np.quantile(drawn[:, i], 0.95)),
            cost=None if cost is None else float(cost[i]),
            speedup=None if exact is None else float(exact[i]),
            speedup_low=float(np.quantile(speeds[:, i], 0.05)),
            speedup_high=float(np.quantile(speeds[:, i], 0.95)),
        )
        for i, window in enumerate(windows)
    )
    advice, says = _advise(curve, best)
    return GroupOutlook(
        group=name,
        answers=len(rows),
        curve=curve,
        thirds=_thirds([_right(replayed.kept[int(row)][LONGEST]) for row in rows]),
        window=windows[best],
        advice=advice,
        says=says,
    )


def _costs(
    windows: Sequence[int], slopes: tuple[float, float], costs: Mapping[int, StepCostDraws]
) -> tuple[Floats | None, Floats]:
    """Estimated cost per window, None while none was measured, and what it may be: one row per draw."""
    rng = np.random.default_rng([SEED, 1])
    places = np.asarray(windows, dtype=np.float64)
    if not costs:
        return None, 1 + rng.uniform(*slopes, DRAWS)[:, None] * places
    measured = sorted(costs)
    extra = np.column_stack([np.resize(costs[window], DRAWS + 1) for window in measured]) - 1
    step_cost = fit_cost(measured, extra, windows, rng)
    return step_cost.estimate, step_cost.draws


def _right(positions: Positions) -> Floats:
    """Share of right proposals at each position."""
    return (positions.kept > 0).astype(np.float64) if positions.chance is None else positions.chance


def _thirds(right: Sequence[Floats]) -> tuple[float, float, float]:
    hits, places = np.zeros(3), np.zeros(3)
    for bits in right:
        for number, part in enumerate(np.array_split(bits, 3)):
            hits[number] += part.sum()
            places[number] += len(part)
    first, middle, last = (hits / np.maximum(places, 1)).tolist()
    return first, middle, last


def _advise(curve: Sequence[Outlook], best: int) -> tuple[Advice, str]:
    point = curve[best]
    band = f"{point.speedup_low:.2f} to {point.speedup_high:.2f} times the plain speed on prompts like these"
    pays = f"it pays if verifying window {point.window} costs less than {point.pays_below:.2f} plain steps"
    top = max(curve, key=lambda one: one.speedup_high)
    if point.speedup_low >= WORTH:
        return "rent", f"rent it: window {point.window} gives {band} ({pays})"
    if top.speedup_high < WORTH:
        return "leave", f"leave it: the best window, {point.window}, gives {band}"
    # What a step costs decides: the window where gain and loss lie furthest apart tells most.
    tell = max(curve, key=lambda one: min(one.speedup_high - 1, 1.0) if one.speedup_high > 1 else -1.0)
    window = point.window if point.speedup_high >= WORTH else tell.window
    return "measure", f"measure window {window} first: it gives {band}, and {pays}"
