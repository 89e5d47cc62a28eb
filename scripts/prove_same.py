"""One service under two names, over connections of every kind: nothing may be called faster.

    uv run python scripts/prove_same.py [RUNS]

Two golden servers of the same settings are measured against each other and judged, RUNS times (20) for each
kind of connection. Prints a table; exit code 1 where a row that counts says "helps" or "hurts".
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from scripts.buffering_proxy import proxied
from scripts.write_dialects import served
from specdec.analysis.judge import judge
from specdec.benchmark.plan import Plan, Target, new_run_id
from specdec.benchmark.run import run
from specdec.experiment.loads import SELF_CHECK_SHARE
from specdec.golden.settings import Dialect, Settings
from specdec.prompts.sets import Prompt
from specdec.runs.folder import read_run

PLAIN = Settings(ttft=0.02, step=0.005)

KINDS: dict[str, Settings] = {
    "a plain socket": PLAIN,
    "without TCP_NODELAY": replace(PLAIN, dialect=Dialect(nodelay=False)),
    "4 KiB buffers": replace(PLAIN, dialect=Dialect(buffer=4096)),
    "40% jitter": replace(PLAIN, jitter=0.4),
    "a proxy with 4 KiB buffers": PLAIN,
    "a proxy with 8 KiB buffers": PLAIN,
}

BUFFERS = {"a proxy with 4 KiB buffers": 4096, "a proxy with 8 KiB buffers": 8192}
"""Bytes that the proxy of a kind keeps; the others have none."""

PROMPTS, TOKENS = 6, 61


def measure(kind: str, seed: int) -> str:
    """What a run of this kind was judged: a decision, or ``withheld`` where its row does not count."""
    settings = replace(KINDS[kind], seed=seed)
    with (
        served([settings, settings]) as servers,
        tempfile.TemporaryDirectory() as scratch,
        ExitStack() as proxies,
    ):
        urls = [url for _, url in servers]
        if size := BUFFERS.get(kind):
            ports = [proxies.enter_context(proxied(urlsplit(url).port or 80, size)) for url in urls]
            urls = [f"http://127.0.0.1:{port}/v1" for port in ports]
        plan = Plan(
            run=new_run_id(),
            experiment="same",
            configuration={},
            configuration_hash="",
            targets=tuple(
                Target(variant=name, url=url, role="speculative" if name == "again" else "baseline")
                for name, url in zip(("baseline", "again"), urls, strict=True)
            ),
            prompts=tuple(
                Prompt(
                    id=f"p{number}", test_case="own", prompt_class="open", text=f"Tell me {number} things."
                )
                for number in range(PROMPTS)
            ),
            output_tokens=TOKENS,
            repeats=2,
            concurrency=2,
            warmup=2,
            self_check=SELF_CHECK_SHARE,
            seed=seed,
        )
        run(plan, Path(scratch) / plan.run)
        stored = read_run(Path(scratch) / plan.run)
        (row,) = judge(stored.manifest, stored.records).comparisons
    return row.decision if row.counts else "withheld"


def outcomes(runs: int, *, kinds: tuple[str, ...] = tuple(KINDS)) -> dict[str, Counter[str]]:
    """How often each kind of connection was judged how."""
    jobs = [(kind, seed) for seed in range(1, runs + 1) for kind in kinds]
    counted = {kind: Counter[str]() for kind in kinds}
    with ThreadPoolExecutor(max_workers=min(4, len(kinds))) as pool:
        decisions = pool.map(measure, [kind for kind, _ in jobs], [seed for _, seed in jobs])
        for (kind, _), said in zip(jobs, decisions, strict=True):
            counted[kind][said] += 1
    return counted


def false_decisions(counted: Counter[str]) -> int:
    """Runs that call one of two equal services faster."""
    return counted["helps"] + counted["hurts"]


def main() -> None:
    """Measures, prints and judges."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    wrong = 0
    print("| connection | runs | helps or hurts | no difference | undecided | withheld |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for kind, counted in outcomes(runs).items():
        wrong += false_decisions(counted)
        rest = " | ".join(str(counted[said]) for said in ("no difference", "undecided", "withheld"))
        print(f"| {kind} | {runs} | {false_decisions(counted)} | {rest} |")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
