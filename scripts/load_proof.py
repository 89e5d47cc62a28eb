"""Predicted against measured over load: what two loads of a run say about the others.

    uv run python scripts/load_proof.py [RUN] [--from 1,8] [--loads 1,2,4,8] [--out FOLDER]

Without RUN, the rehearsal's prompts are first asked on this machine's engine, plainly and with its draft
model, at each of ``--loads``: about six minutes on two idle cores. Two loads are then shown to the
model that ``specdec tune`` uses, and the others are predicted. Prints a table in Markdown, every test case
weighing the same, and the median error over all loads that the model had not seen.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

import numpy as np

from specdec.analysis.judge import RunJudge
from specdec.analysis.load_model import fit_loads
from specdec.analysis.observation import Observation
from specdec.analysis.tuning import drafts_of, observed
from specdec.benchmark.run import run
from specdec.catalog.roofline import Floor
from specdec.console import say
from specdec.experiment.reading import load as load_experiment
from specdec.folders import cache_folder
from specdec.rehearsal import over_load
from specdec.rehearsal.engines.llamacpp import DRAFT_MODEL, LlamaCpp
from specdec.runs.folder import read_run


def measure(loads: Sequence[float], out: Path) -> Path:
    """Measures the rehearsal's draft model at these loads; the folder of the run."""
    experiment = load_experiment(Path("experiment.toml"))
    engine = LlamaCpp(cache=cache_folder(os.environ) / "weights", setup=DRAFT_MODEL)
    engine.check()
    engine.prepare(say)
    try:
        services = engine.start(over_load.variants(experiment), out / "logs", say)
        plan = over_load.plan_of(experiment, services, {"engine": engine.facts()})
        plan = dataclasses.replace(plan, loads=tuple(loads))
        run(plan, out / plan.run, on_event=lambda event: say(f"  {event.done}/{event.total}"))
    finally:
        engine.stop()
    return out / plan.run


def measured_tpots(cases: Mapping[str, Sequence[Observation]], window: int) -> tuple[float, float]:
    """Seconds per token without and with speculation at one window, every test case weighing the same."""
    own = [one for seen in cases.values() for one in seen if one.window == window]
    plain = fmean(float(one.baseline.mean()) for one in own)
    return plain, fmean(float(one.seconds.sum() / one.tokens.sum()) for one in own)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", metavar="RUN", help="of several loads")
    parser.add_argument("--from", dest="shown", default="1,8", help="the loads that the model may see")
    parser.add_argument("--loads", default="1,2,4,8", help="to measure")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder of the measured run")
    arguments = parser.parse_args()
    loads = [float(part) for part in arguments.loads.split(",")]
    folder = arguments.folder or measure(loads, arguments.out)
    told = read_run(folder)
    every = sorted({record.load for record in told.records if not record.warmup})
    judges = {
        load: RunJudge(told.manifest, [record for record in told.records if record.load == load], None, None)
        for load in every
    }
    first = judges[every[0]]
    shown = [float(part) for part in arguments.shown.split(",")]
    errors: list[float] = []
    print("| draft | window | in flight | | predicted | 5% to 95% | measured | error |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for draft in drafts_of(first):
        seen = {load: observed(judge, draft) for load, judge in judges.items()}
        model = fit_loads({load: seen[load] for load in shown}, first.convention, floor=Floor(), loads=every)
        if model is None:
            raise SystemExit(f"{folder} tells nothing of {draft.draft} at {arguments.shown}")
        for window in draft.windows:
            for load in every:
                rows = model.baseline(load), model.tpot(load)[:, window - model.windows.start]
                truths = measured_tpots(seen[load], window)
                for what, drawn, truth in zip(("plain", "with the draft"), rows, truths, strict=True):
                    low, high = np.quantile(drawn[1:], [0.05, 0.95])
                    error = float(drawn[0]) / truth - 1
                    if load not in shown:
                        errors.append(abs(error))
                    cells = (
                        *(draft.draft, window, f"{load:g}{' (seen)' if load in shown else ''}", what),
                        *(f"{1000 * drawn[0]:.1f} ms", f"{1000 * low:.1f} to {1000 * high:.1f}"),
                        *(f"{1000 * truth:.1f} ms", f"{error:+.0%}"),
                    )
                    print(f"| {' | '.join(map(str, cells))} |")
    print(f"\nMedian error over {len(errors)} unseen times: {median(errors):.1%}; largest {max(errors):.1%}.")


if __name__ == "__main__":
    main()
