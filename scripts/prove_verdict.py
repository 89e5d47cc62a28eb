"""How often a report calls identical services different, and how often it finds a true difference.

Prints the two tables of docs/verdict.md, each as it would be without the self-check and as it is with it.
Takes about four minutes of one core; `--reports 40` for a look, `--seed` for other draws.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from specdec.analysis.pairing import log_ratios, pairs
from specdec.analysis.self_check import self_check, settled
from specdec.analysis.significance import ReadTogether, decide
from specdec.experiment.loads import SELF_CHECK_SHARE
from specdec.metrics.tpot import TPOT
from specdec.runs.record import EXACT, SELF_CHECK
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
    "one repeat, eight prompts, blocks 2%": (Disturbance(block=0.02), Design(repeats=1, prompts=8)),
    "one repeat, eight prompts, drift of 20%": (Disturbance(drift=0.2), Design(repeats=1, prompts=8)),
    "half of the connections 8% faster": (Disturbance(fresh=0.08), Design()),
    "half of the connections 8% faster, one repeat, eight prompts": (
        Disturbance(fresh=0.08),
        Design(repeats=1, prompts=8),
    ),
    "a twentieth of the run twice as slow": (Disturbance(minute=0.7), Design()),
    "a server twice as slow at the end": (Disturbance(drift=0.7), Design()),
    "all but the baseline's first connection 7% slower": (Disturbance(later=0.07), Design()),
    "all but the baseline's first connection 7% slower, blocks 2%": (
        Disturbance(later=0.07, block=0.02),
        Design(),
    ),
    "all but the baseline's first connection 15% slower": (Disturbance(later=0.15), Design()),
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


def decisions(chance: random.Random, disturbance: Disturbance, design: Design) -> Iterator[tuple[str, str]]:
    """The decision of each row of one simulated report, without and with the self-check; ``cannot tell``
    where there is no interval.
    """
    records = run(chance, disturbance, replace(design, self_check=SELF_CHECK_SHARE))
    exact = [r for r in records if r.lane == EXACT]
    plain = [r for r in exact if r.variant == "baseline"]
    check = self_check("baseline", plain, [r for r in records if r.lane == SELF_CHECK])
    rows = [
        log_ratios(
            pairs(
                [r for r in plain if r.test_case == case],
                [r for r in exact if (r.variant, r.test_case) == ("fast", case)],
            ),
            TPOT.of,
        )
        for case in dict.fromkeys(r.test_case for r in exact)
    ]
    known = ReadTogether.of([("fast", row) for row in rows])
    for row in rows:
        ratio = known.ratio("fast", row)
        if ratio and ratio.interval:
            yield decide(ratio.interval), settled(ratio, check)
        else:
            yield "cannot tell", "cannot tell"


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=400)
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    parser.add_argument("--seed", default="", help="of the draws")
    arguments = parser.parse_args()
    reports: int = arguments.reports

    def simulated(name: str, kind: tuple[Disturbance, Design], count: int) -> list[list[tuple[str, str]]]:
        seeds = (f"{arguments.seed}{name} {number}" for number in range(count))
        return [list(decisions(random.Random(seed), *kind)) for seed in seeds]

    print(f"| identical services | false reports of {reports} | with the self-check | cannot tell |")
    print("| --- | ---: | ---: | ---: |")
    for name, kind in SAME.items():
        if arguments.only in name:
            said = simulated(name, kind, reports)
            shares: list[str] = []
            for arm in (0, 1):
                wrong = sum(any(row[arm] in ("helps", "hurts") for row in rows) for rows in said)
                shares.append(f"{wrong} ({wrong / reports:.1%})")
            silent = Counter(row[1] == "cannot tell" for rows in said for row in rows)
            print(f"| {name} | {' | '.join(shares)} | {silent[True] / silent.total():.0%} |", flush=True)
    print()
    print("| a true difference | rows that find it | with the self-check |")
    print("| --- | ---: | ---: |")
    for name, kind in FOUND.items():
        if arguments.only in name:
            rows = [row for report in simulated(name, kind, reports // 4) for row in report]
            shares = [f"{sum(row[arm] == 'helps' for row in rows) / len(rows):.0%}" for arm in (0, 1)]
            print(f"| {name} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
