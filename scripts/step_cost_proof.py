"""Does a step cost the same whatever is kept of its proposals? Asks the real engine.

    uv run python scripts/step_cost_proof.py [--windows 2,4,7] [--kept 1,3]

Serves SmolLM2-135M as 32-bit floats with its Q4_1 weights as a draft in llama.cpp, plainly and at each
window. Once it keeps what is right, and once per schedule so many tokens per step whatever they are
(llama.cpp's synthetic acceptance). Prints the cost of a step in plain steps in Markdown. Needs an idle
machine.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from specdec.analysis.measured_costs import StepCosts, costs_of
from specdec.experiment.fields import Experiment
from specdec.experiment.reading import load
from specdec.rehearsal.emulator.embedded import cache_folder
from specdec.rehearsal.engines.llamacpp import LlamaCpp, Setup
from specdec.rehearsal.sweep import sweep
from specdec.runs.folder import read_run

PROMPTS = "synthetic:input=32,output=64,count=8"


def measured(experiment: Experiment, windows: list[int], kept: float | None, folder: Path) -> StepCosts:
    """Step costs of one sweep of windows."""
    setup = Setup(bits=32, draft_model=True, kept=kept, threads=2)
    engine = LlamaCpp(cache=cache_folder(os.environ) / "weights", setup=setup)
    run = read_run(folder / sweep(experiment, windows, engine, folder).run)
    return costs_of(run.manifest, run.records)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", default="2,4,7")
    parser.add_argument("--kept", default="1,3", help="tokens per step of the schedules")
    arguments = parser.parse_args()
    windows = [int(part) for part in arguments.windows.split(",")]
    experiment = load(Path("experiment.toml"))
    benchmark = experiment.benchmark.model_copy(update={"prompts": PROMPTS, "output_tokens": 64})
    experiment = experiment.model_copy(update={"benchmark": benchmark})
    print("| kept | plain step | " + " | ".join(f"window {window}" for window in windows) + " |")
    print("| --- | ---: |" + " ---: |" * len(windows))
    with tempfile.TemporaryDirectory() as scratch:
        for kept in (None, *(float(part) for part in arguments.kept.split(","))):
            told = measured(experiment, windows, kept, Path(scratch))
            cells = [
                f"{one.cost:.2f} ({one.band[0]:.2f} to {one.band[1]:.2f}), {one.tokens_per_step:.2f} tokens"
                for one in told.costs
            ]
            name = "what is right" if kept is None else f"{kept:g} tokens a step"
            print(f"| {name} | {1000 * (told.plain or 0):.1f} ms | {' | '.join(cells)} |", flush=True)
            for variant, reason in told.reasons.items():
                print(f"<!-- {variant}: {reason} -->")


if __name__ == "__main__":
    main()
