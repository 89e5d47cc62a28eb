"""What speculation has been published to bring on Neuron, mode by mode."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedUp:
    """One published comparison of decoding with and without a draft.

    Attributes:
        mode: speculation mode.
        instance_type: where it ran.
        pair: target and draft.
        window: num_speculative_tokens.
        sequences: sequences decoded together.
        low, high: times the plain speed, worst and best prompts; equal where only one figure is given.
        step_cost: time of one speculative step in plain steps; None where it cannot be told.
        source: where this was read, with the date.
    """

    mode: str
    instance_type: str
    pair: str
    window: int
    sequences: int
    low: float
    high: float
    step_cost: float | None = None
    source: str


_KILN = "foxl-ai/kiln, bench/results/2026-10-07-eagle3-trn2-llama31.md @f5a7faf"

SPEED_UPS = (
    SpeedUp(
        mode="fused",
        instance_type="trn2.48xlarge",
        pair="Qwen3-32B, Qwen3-1.7B",
        window=7,
        sequences=4,
        low=1.0,
        high=3.0,
        step_cost=2.3,
        source="AWS machine learning blog (2026-04-15), read through summaries; the step's cost is inferred",
    ),
    SpeedUp(
        mode="fused",
        instance_type="trn2.48xlarge",
        pair="Qwen3-32B, Qwen3-0.6B",
        window=7,
        sequences=1,
        low=1.07,
        high=1.35,
        source="Neuron docs, sd-inference-tutorial.rst (2025-12-02): worst E2E and best throughput",
    ),
    SpeedUp(
        mode="fused",
        instance_type="trn2.48xlarge",
        pair="Llama-3.3-70B, Llama-3.2-1B",
        window=7,
        sequences=1,
        low=3.7,
        high=3.7,
        source="Neuron docs, llama70b_perf_comparison.csv (2024-12)",
    ),
    SpeedUp(
        mode="eagle",
        instance_type="trn2.48xlarge",
        pair="Llama-3.1-8B, EAGLE 3",
        window=3,
        sequences=2,
        low=1.57,
        high=1.57,
        step_cost=1.96,
        source="Neuron docs, EAGLE3 tutorial for Llama 3.1 (SDK 2.32)",
    ),
    SpeedUp(
        mode="eagle",
        instance_type="trn2.3xlarge",
        pair="Llama-3.1-8B, EAGLE 3",
        window=3,
        sequences=1,
        low=1.14,
        high=1.95,
        step_cost=1.58,
        source=_KILN,
    ),
    SpeedUp(
        mode="dflash",
        instance_type="trn2.3xlarge",
        pair="Llama-3.1-8B, DFlash UltraChat",
        window=9,
        sequences=1,
        low=3.11,
        high=3.11,
        source="vllm-project/vllm-neuron @fa25212, a contributor's branch (2026)",
    ),
    SpeedUp(
        mode="dflash",
        instance_type="trn2.3xlarge",
        pair="Llama-3.1-8B, DFlash UltraChat",
        window=9,
        sequences=4,
        low=1.22,
        high=1.22,
        source="vllm-project/vllm-neuron @fa25212, a contributor's branch (2026)",
    ),
    SpeedUp(
        mode="dflash",
        instance_type="trn2.3xlarge",
        pair="Qwen3-4B, DFlash",
        window=15,
        sequences=1,
        low=1.75,
        high=1.75,
        source="vllm-project/vllm-neuron @09006a4, a contributor's branch (2026)",
    ),
    SpeedUp(
        mode="dflash",
        instance_type="trn2.3xlarge",
        pair="Qwen3-4B, DFlash",
        window=15,
        sequences=4,
        low=0.35,
        high=0.35,
        source="vllm-project/vllm-neuron @09006a4, a contributor's branch (2026)",
    ),
)


def speed_ups(mode: str, sequences: int) -> tuple[SpeedUp, ...]:
    """The published comparisons of a mode: those of one sequence for one, of several for several, and all
    where there are none of the kind. For a mode without a published comparison, those of every mode, since
    nothing better is known about the gain.
    """
    rows = tuple(row for row in SPEED_UPS if row.mode == mode) or SPEED_UPS
    alike = tuple(row for row in rows if (row.sequences == 1) == (sequences == 1))
    return alike or rows
