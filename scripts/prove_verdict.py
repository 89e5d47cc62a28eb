"""How often a report calls identical services different, and how often it finds a true difference.

Prints the two tables of docs/verdict.md. Takes about five minutes of one core; `--reports 40` for a look.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from specdec.analysis.pairing import log_ratios, pairs
from specdec.analysis.significance import ReadTogether, decide
from specdec.metrics.tpot import TPOT
from tests.analysis.noise import Design, Disturbance, run

SAME: dict[str, tuple[Disturbance, Design]] = {
    "independent, 1%": (Disturbance(), Design()),
    "independent, 5%": (Disturbance(request=0.05), Design()),
    "unequal spreads, 1% to 8%": (Disturbance(unequal=(1, 1, 2, 2, 4, 4, 8, 8)), Design()),
    "heavy tails (t, 3 degrees), 5%": (Disturbance(request=0.05, heavy=True), Design()),
    "AR(1) 0.95, 5%": (Disturbance(slow=0.05), Design()),
    "AR(1) 0.95, 5%, concurrency 1": (Disturbance(slow=0.05), Design(concurrency=1)),
    "drift of 20% over the run": (Disturbance(drift=0.2), Design()),
    "blocks 1%": (Disturbance(block=0.01), Design()),
    "blocks 2%": (Disturbance(block=0.02), Design()),
    "blocks 3%": (Disturbance(block=0.03), Design()),
    "blocks 2%, concurrency 8": (Disturbance(block=0.02), Design(concurrency=8)),
    "blocks 2%, concurrency 8, 4 repeats": (Disturbance(block=0.02), Design(concurrency=8, repeats=4)),
    "blocks 2%, eight prompts": (Disturbance(block=0.02), Design(prompts=8)),
    "blocks 2%, concurrency 1": (Disturbance(block=0.02), Design(concurrency=1)),
    "blocks 2% and unequal spreads": (Disturbance(block=0.02, unequal=(1, 1, 2, 2, 4, 4, 8, 8)), Design()),
    "three test cases, independent 1%": (Disturbance(), Design(cases=3)),
    "three test cases, blocks 2%": (Disturbance(block=0.02), Design(cases=3)),
    "three test cases, blocks 2%, 4 repeats": (Disturbance(block=0.02), Design(cases=3, repeats=4)),
    "one test case, blocks 2%, 4 repeats": (Disturbance(block=0.02), Design(cases=1, repeats=4)),
    "one repeat, blocks 2%": (Disturbance(block=0.02), Design(repeats=1)),
}

REAL = Disturbance(request=0.03, prompt=0.03)
FOUND: dict[str, tuple[Disturbance, Design]] = {
    "+10%, four prompts": (REAL, Design(effects=(0.0953,))),
    "+10%, eight prompts": (REAL, Design(prompts=8, effects=(0.0953,))),
    "+10%, eight prompts, blocks 1%": (
        Disturbance(request=0.03, prompt=0.03, block=0.01),
        Design(prompts=8, effects=(0.0953,)),
    ),
    "+10%, eight prompts, blocks 2%": (
        Disturbance(request=0.03, prompt=0.03, block=0.02),
        Design(prompts=8, effects=(0.0953,)),
    ),
    "+5%, twenty prompts": (REAL, Design(prompts=20, effects=(0.0488,))),
    "+5%, twenty prompts, blocks 1%": (
        Disturbance(request=0.03, prompt=0.03, block=0.01),
        Design(prompts=20, effects=(0.0488,)),
    ),
}


def decisions(chance: random.Random, disturbance: Disturbance, design: Design) -> Iterator[str]:
    """The decision of each row of one simulated report; ``cannot tell`` where there is no interval."""
    records = run(chance, disturbance, design)
    rows = [
        log_ratios(
            pairs(
                [r for r in records if (r.variant, r.test_case) == ("baseline", case)],
                [r for r in records if (r.variant, r.test_case) == ("fast", case)],
            ),
            TPOT.of,
        )
        for case in dict.fromkeys(r.test_case for r in records)
    ]
    known = ReadTogether.of([("fast", row) for row in rows])
    for row in rows:
        ratio = known.ratio("fast", row)
        yield decide(ratio.interval) if ratio and ratio.interval else "cannot tell"


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=400)
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    arguments = parser.parse_args()
    reports: int = arguments.reports
    print(f"| identical services | false reports of {reports} | rows without a decision |")
    print("| --- | ---: | ---: |")
    for name, (disturbance, design) in SAME.items():
        if arguments.only in name:
            wrong, silent, rows = 0, 0, 0
            for seed in range(reports):
                said = list(decisions(random.Random(f"{name} {seed}"), disturbance, design))
                wrong += bool({"helps", "hurts"} & set(said))
                silent += said.count("cannot tell")
                rows += len(said)
            print(f"| {name} | {wrong} ({wrong / reports:.1%}) | {silent / rows:.0%} |", flush=True)
    print()
    print("| a true difference | rows that find it |")
    print("| --- | ---: |")
    for name, (disturbance, design) in FOUND.items():
        if arguments.only in name:
            counts: Counter[str] = Counter()
            for seed in range(reports // 4):
                counts.update(decisions(random.Random(f"{name} {seed}"), disturbance, design))
            print(f"| {name} | {counts['helps'] / counts.total():.0%} |", flush=True)


if __name__ == "__main__":
    main()
