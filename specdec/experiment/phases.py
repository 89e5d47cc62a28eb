"""The order of phases where variants are served one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from specdec.errors import Mistake

if TYPE_CHECKING:
    from specdec.catalog.chips import Instance
    from specdec.experiment.sections import Benchmark, Serving, Variant


def phase_order(variants: int, repeats: int) -> tuple[int, ...]:
    """Index of the variant that is served in each phase; 0 is the baseline.

    Every phase of another variant stands between two of the baseline (A-B-A, with two others A-B-A-C-A), so
    that a steady drift falls on both alike. Each repeat goes through all variants once more and shares the
    baseline's phase in between, so there are ``2 * repeats * (variants - 1) + 1`` phases.
    """
    others = range(1, variants)
    return (0, *(index for _ in range(repeats) for other in others for index in (other, 0)))


def nodes_for(serving: Serving, variants: Sequence[Variant], benchmark: Benchmark, instance: Instance) -> int:
    """Accelerator nodes that the services served at once take."""
    sizes = [serving.settings(variant).devices for variant in variants]
    return -(-(max(sizes) if benchmark.schedule == "sequential" else sum(sizes)) // instance.devices)


def sequential_mistakes(variants: int, loads: Sequence[float], *, prefix: str = "") -> Iterator[Mistake]:
    """Mistakes that make a design in phases impossible.

    Args:
        variants: how many there are.
        loads: several loads of one run.
        prefix: of the fields' names, such as ``benchmark.``.
    """
    if variants < 2:
        yield Mistake(
            f"{prefix}schedule", "sequential", "has nothing to compare with one variant", "Add another one"
        )
    if len(loads) > 1:
        yield Mistake(
            f"{prefix}loads",
            list(loads),
            "would make a phase so long that the baseline before and after it shows no drift within it, and"
            ' schedule is "sequential"',
            'Name one load, or use schedule = "alternate"',
        )
