"""The published windows of EAGLE 3 on one Trainium2 chip: what each one alone says about the others.

    uv run python scripts/eagle_proof.py

Figures: foxl-ai/kiln, bench/results/2026-10-07-eagle3-trn2-llama31.md at f5a7faf: Llama-3.1-8B with its
EAGLE 3 draft, batch 1, greedy, tokens per second after the first token. Acceptance by position was not
published: it is taken as constant, and found from the one window's tokens per step.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specdec.analysis.advice import WindowAdvice
from specdec.analysis.choice import CLOSE, Measured, advise
from specdec.analysis.constant_acceptance import acceptance_of, constant_tokens
from specdec.analysis.step_cost import fit_cost
from specdec.analysis.window_model import DRAWS, LARGEST, SEED, Model
from specdec.catalog.conventions import TEXTBOOK

OFF = 100.18
WINDOWS: Mapping[int, tuple[float, float]] = {
    1: (136.6, 1.71),
    2: (146.0, 2.19),
    3: (153.2, 2.49),
    4: (143.1, 2.62),
}
"""Window to tokens per second and tokens per step."""

PROMPTS: Mapping[str, tuple[tuple[float, float, float], ...]] = {
    "vllm-neuron": (
        (99.20, 192.97, 3.17),
        (99.18, 170.87, 2.80),
        (99.17, 164.18, 2.70),
        (99.16, 135.06, 2.19),
        (99.17, 160.13, 2.61),
        (99.18, 113.43, 1.87),
    ),
    "the other engine": (
        (100.19, 189.64, 3.12),
        (100.18, 165.42, 2.83),
        (100.17, 155.49, 2.68),
        (100.19, 131.81, 2.19),
        (100.18, 168.99, 2.87),
        (100.19, 108.00, 1.78),
    ),
}
"""Engine to tokens per second off and on, and tokens per step, per prompt at window 3."""


def from_one(seen: int) -> WindowAdvice:
    """What ``tune`` says where one window was measured."""
    speed, tokens = WINDOWS[seen]
    rate = acceptance_of(TEXTBOOK, seen, tokens)
    windows = range(TEXTBOOK.smallest, LARGEST + 1)
    extra = np.full((DRAWS + 1, 1), tokens * OFF / speed - 1)
    cost = fit_cost([seen], extra, list(windows), np.random.default_rng([SEED, 1]))
    emitted = np.asarray([constant_tokens(TEXTBOOK, window, rate) for window in windows])
    model = Model(
        convention=TEXTBOOK,
        baseline=np.full(DRAWS + 1, 1 / OFF),
        steps=np.tile(1 / emitted, (DRAWS + 1, 1)),
        plain=np.zeros((DRAWS + 1, len(windows))),
        cost=np.vstack([cost.estimate, cost.draws]),
        kinds=cost.kinds,
        fixed=cost.fixed,
        slope=cost.slope,
        rate=rate,
        undrafted=0.0,
    )
    return advise(Measured((f"w{seen}",), "EAGLE 3", (seen,)), [model], test_case=None, tpots={})


def largest_error(engine: str) -> float:
    """Largest error of a prompt's speed, from its tokens per step and one step cost of the engine."""
    rows = PROMPTS[engine]
    cost = sum(off / on * tokens for off, on, tokens in rows) / len(rows)
    return max(abs(tokens / cost / (on / off) - 1) for off, on, tokens in rows)


def main() -> None:
    """Prints both tables in Markdown."""
    truth = {window: speed / OFF for window, (speed, _) in WINDOWS.items()}
    print("| seen | 1 | 2 | 3 | 4 | largest error | recommended | loses | measure next |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for seen in WINDOWS:
        advice = from_one(seen)
        best = advice.recommended or 0
        speedups = {point.window: point.speedup for point in advice.curve}
        errors = {window: speedups[window] / truth[window] - 1 for window in WINDOWS}
        shown = " | ".join(f"{speedups[window]:.3f} ({errors[window]:+.1%})" for window in WINDOWS)
        worst = max(abs(error) for error in errors.values())
        lost = max(truth.values()) / truth[best] - 1
        note = "" if lost <= CLOSE else " (over 3%)"
        print(f"| {seen} | {shown} | {worst:.1%} | {best} | {lost:.1%}{note} | {advice.confirm} |")
    print()
    for engine in PROMPTS:
        print(f"- {engine}: largest error of a prompt's speed {largest_error(engine):.1%}")


if __name__ == "__main__":
    main()
