"""How often is the crossing right? Simulated runs with a planted crossing, and runs of two alike services.
Prints Markdown: about four minutes.

uv run python scripts/prove_loads.py [--seeds 100]

Each run has eight prompts twice at 1, 2, 4, 8 and 16 requests in flight. Prompts differ by 8% (or as said)
in what they cost, and what runs together shares a disturbance. Under "stopped where settled" each load may
have twelve visits and gets no more once the ratio between the variants is settled, as a run does it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from math import log
from statistics import fmean
from typing import Any

from specdec.analysis.judge import judge
from specdec.benchmark.points import agree
from specdec.metrics.tpot import TPOT
from specdec.runs.record import RequestRecord
from tests.analysis import loads as simulated
from tests.analysis.simulate import manifest


def main() -> None:
    """Runs every condition and prints its row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--only", default="", help="conditions whose name holds this")
    arguments = parser.parse_args()
    seeds = arguments.seeds
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
        **{
            f"alike, blocks disturbed by {noise:.1%}, {how}": {
                "drafted": simulated.PLAIN,
                "block_noise": noise,
                "repeats": 12,
                "tokens": 60,
                "loads": (1.0, 4.0),
                "settling": how == "stopped where settled",
            }
            for noise in (0.005, 0.01, 0.02)
            for how in ("all twelve visits", "stopped where settled")
        },
    }
    for name, fields in conditions.items():
        if arguments.only not in name:
            continue
        print(row(name, seeds, **fields), flush=True)


def until_settled(records: list[RequestRecord]) -> list[RequestRecord]:
    """The records of a run that stops visiting a load where its ratio is settled."""
    kept: list[RequestRecord] = []
    for load in sorted({record.load for record in records}):
        own = [record for record in records if record.load == load]
        visits: list[float] = []
        for visit in range(1 + max(record.repeat for record in own)):
            here = [record for record in own if record.repeat == visit]
            kept += here
            logs = {(r.variant, r.prompt): log(value) for r in here if (value := TPOT.of(r)) is not None}
            prompts = {prompt for _, prompt in logs}
            visits.append(fmean(logs["drafted", p] - logs["baseline", p] for p in prompts))
            if agree(visits):
                break
    return kept


def row(
    name: str,
    seeds: int,
    *,
    drafted: simulated.Service = simulated.DRAFTED,
    settling: bool = False,
    **fields: Any,
) -> str:
    """One condition: how often the crossing is told, near enough, and inside its interval."""
    truth = simulated.truth(simulated.PLAIN, drafted) if drafted is not simulated.PLAIN else None
    crossings = near = held = wrong = false = 0
    widths: list[float] = []
    for seed in range(seeds):
        records = simulated.run({"baseline": simulated.PLAIN, "drafted": drafted}, seed, **fields)
        if settling:
            records = until_settled(records)
        verdict = judge(manifest({"baseline": {}, "drafted": {"window": drafted.window}}), records)
        assert verdict.loads is not None
        (load_row,) = verdict.loads.rows
        before = wrong
        for point in load_row.points:
            if point.decision in ("helps", "hurts"):
                faster = truth is not None and point.load < truth
                wrong += (point.decision == "helps") != faster or truth is None
        false += wrong > before
        if load_row.crossings:
            crossings += 1
            crossing = load_row.crossings[0]
            widths.append((crossing.high - crossing.low) / crossing.load)
            if truth is not None:
                near += abs(crossing.load / truth - 1) <= 0.1
                held += crossing.low <= truth <= crossing.high
    width = f"{100 * sorted(widths)[len(widths) // 2]:.0f}%" if widths else "-"
    shown = "none" if truth is None else f"{truth:.2f}"
    told = f"{crossings} of {seeds} | {near} | {held} | {width}"
    return f"| {name} | {shown} | {told} | {wrong} rows in {false} runs |"


if __name__ == "__main__":
    main()
