r"""Predicted against measured: what one or two windows of a sweep say about the others.

    uv run specdec tune --sweep 3,5,7,9,12,15 --test-case repetition --test-case json --test-case code \
        --test-case story
    uv run python scripts/window_proof.py runs/<run id> --from 7 [--from 3] [--plot docs/window-proof.svg]

Prints a table in Markdown and the median error over all windows that the prediction had not seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from specdec.analysis.advice import WindowAdvice
from specdec.analysis.judge import judge
from specdec.runs.folder import read_run


def predicted_and_measured(
    folder: Path, seen: Collection[int]
) -> list[tuple[WindowAdvice, dict[int, float]]]:
    """Per test case, the advice drawn from the windows ``seen`` alone, and the measured seconds per token of
    every window of the sweep.
    """
    run = read_run(folder)
    variants = {
        name: v
        for name, v in run.manifest.variants.items()
        if v.get("role") == "baseline" or v.get("window") in seen
    }
    records = [record for record in run.records if record.variant in variants]
    alone = judge(replace(run.manifest, variants=variants), records)
    verdict = judge(run.manifest, run.records)
    measured = {
        a.test_case: {p.window: p.measured_tpot for p in a.curve if p.measured_tpot is not None}
        for a in verdict.windows
    }
    return [(advice, measured[advice.test_case]) for advice in alone.windows if advice.test_case is not None]


def main() -> None:
    """Prints the table; draws the plot if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--from",
        dest="seen",
        type=int,
        action="append",
        required=True,
        help="a window that the prediction may see; may be given again",
    )
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    rows = predicted_and_measured(arguments.folder, arguments.seen)
    errors: list[float] = []
    print("| test case | window | predicted | measured | error |\n| --- | --- | --- | --- | --- |")
    for advice, measured in rows:
        for point in advice.curve:
            if point.window not in measured:
                continue
            error = point.tpot / measured[point.window] - 1
            if point.window not in arguments.seen:
                errors.append(abs(error))
            seen = " (seen)" if point.window in arguments.seen else ""
            values = f"{1000 * point.tpot:.1f} ms | {1000 * measured[point.window]:.1f} ms"
            print(f"| {advice.test_case} | {point.window}{seen} | {values} | {error:+.0%} |")
    print(
        f"\nMedian error over {len(errors)} unseen windows: {median(errors):.1%}; largest {max(errors):.1%}."
    )
    if arguments.plot:
        _plot(rows, arguments.plot)


def _plot(rows: list[tuple[WindowAdvice, dict[int, float]]], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    parameters: Any = mpl.rcParams
    parameters["svg.hashsalt"] = "specdec"
    figure: Any = Figure(figsize=(2.6 * len(rows), 2.8), layout="constrained")
    for place, (advice, measured) in enumerate(rows, 1):
        axes = figure.add_subplot(1, len(rows), place)
        windows = [point.window for point in advice.curve]
        axes.fill_between(
            windows,
            [1000 * p.low for p in advice.curve],
            [1000 * p.high for p in advice.curve],
            alpha=0.2,
            linewidth=0,
        )
        axes.plot(windows, [1000 * point.tpot for point in advice.curve], label="predicted")
        axes.plot(list(measured), [1000 * value for value in measured.values()], "o", label="measured")
        axes.axhline(1000 * advice.baseline_tpot, linestyle=":", color="gray", label="off")
        axes.set_title(advice.test_case or "")
        axes.set_xlabel("window")
        axes.set_ylim(bottom=0)
        if place == 1:
            axes.set_ylabel("TPOT, ms")
            axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
