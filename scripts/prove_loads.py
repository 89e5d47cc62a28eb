"""How often is the crossing right? Simulated runs with a planted crossing, and runs of two alike services.
Prints Markdown: about four minutes.

uv run python scripts/prove_loads.py [--seeds 100]

Each run has eight prompts twice at 1, 2, 4, 8 and 16 requests in flight. Prompts differ by 8% (or as said)
in what they cost, and what runs together shares a disturbance.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from specdec.analysis.judge import judge
from tests.analysis import loads as simulated
from tests.analysis.simulate import manifest


def main() -> None:
    """Runs every condition and prints its row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    seeds = parser.parse_args().seeds
    print("| condition | truth | told | within 10% | interval holds it | interval, width | wrong |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    conditions: dict[str, dict[str, Any]] = {
        "as planted": {},
        "blocks disturbed by 5%": {"block_noise": 0.05},
        "prompts differ by 15%": {"prompt_noise": 0.15},
        "four prompts": {"prompts": 4, "repeats": 4},
        "crossing between 2 and 4": {"drafted": replace(simulated.DRAFTED, batch_step=0.026)},
        "alike": {"drafted": simulated.PLAIN},
        "alike, blocks disturbed by 5%": {"drafted": simulated.PLAIN, "block_noise": 0.05},
    }
    for name, fields in conditions.items():
        print(row(name, seeds, **fields), flush=True)


def row(name: str, seeds: int, *, drafted: simulated.Service = simulated.DRAFTED, **fields: Any) -> str:
    """One condition: how often the crossing is told, near enough, and inside its interval."""
    truth = simulated.truth(simulated.PLAIN, drafted) if drafted is not simulated.PLAIN else None
    crossings = near = held = wrong = 0
    widths: list[float] = []
    for seed in range(seeds):
        records = simulated.run({"baseline": simulated.PLAIN, "drafted": drafted}, seed, **fields)
        verdict = judge(manifest({"baseline": {}, "drafted": {"window": drafted.window}}), records)
        assert verdict.loads is not None
        (load_row,) = verdict.loads.rows
        for point in load_row.points:
            if point.decision in ("helps", "hurts"):
                faster = truth is not None and point.load < truth
                wrong += (point.decision == "helps") != faster or truth is None
        if load_row.crossings:
            crossings += 1
            crossing = load_row.crossings[0]
            widths.append((crossing.high - crossing.low) / crossing.load)
            if truth is not None:
                near += abs(crossing.load / truth - 1) <= 0.1
                held += crossing.low <= truth <= crossing.high
    width = f"{100 * sorted(widths)[len(widths) // 2]:.0f}%" if widths else "-"
    shown = "none" if truth is None else f"{truth:.2f}"
    return f"| {name} | {shown} | {crossings} of {seeds} | {near} | {held} | {width} | {wrong} rows |"


if __name__ == "__main__":
    main()
