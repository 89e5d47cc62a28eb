"""A sweep of windows on an engine of this machine, where another window costs seconds and not a compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec.benchmark.run import RunEvent
    from specdec.experiment import Experiment, Variant
    from specdec.rehearsal.engines import Engine

OUTPUT_TOKENS = 128


def variants(experiment: Experiment, windows: Sequence[int]) -> tuple[Variant, ...]:
    """The baseline, and the experiment's first speculative variant once per window."""
    drafted = next(variant for variant in experiment.variants if variant.speculative)
    made = (drafted.model_copy(update={"name": f"window-{window}", "service": f"window-{window}", "window": window}) for window in windows)
    return (experiment.baseline, *made)


def sweep(
    experiment: Experiment,
    windows: Sequence[int],
    engine: Engine,
    folder: Path,
    *,
    test_cases: tuple[str, ...] = (),
    output_tokens: int = OUTPUT_TOKENS,
    base: Path | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
    on_event: Callable[[RunEvent], None] = lambda _: None,
) -> Path:
    """Measures the baseline and every window side by side, as one run with a variant per window.

    Args:
        experiment: whose prompts are asked.
        windows: num_speculative_tokens to try.
        engine: serves them; it is checked, prepared, started and stopped here.
        folder: of the runs; the run's own folder is made in it.
        test_cases: only these; all by default.
        output_tokens: of every request.
        base: folder that a relative prompt file starts from.
        on_progress: told what the engine does.
        on_event: told of every request.

    Returns:
        The run's folder.

    Raises:
        SpecdecError: the engine cannot serve here, or the run failed before it began.
    """
    from specdec.benchmark.plan import Plan
    from specdec.benchmark.run import run

    swept = experiment.model_copy(
        update={
            "variants": variants(experiment, windows),
            "benchmark": experiment.benchmark.model_copy(
                update={"output_tokens": min(output_tokens, experiment.benchmark.output_tokens), "concurrency": 1, "repeats": 1}
            ),
        }
    )
    engine.check()
    engine.prepare(on_progress)
    try:
        services = engine.start(swept.variants, folder / "logs", on_progress)
        plan = Plan.from_experiment(
            swept, {service.variant: service.url for service in services}, base=base, environment={"engine": engine.facts()}
        )
        real = {service.variant: service for service in services}
        # What the engine really drafts with stands in the records, not what the experiment asked of the accelerator.
        targets = tuple(
            replace(target, model=real[target.variant].model, mode=real[target.variant].mode, draft=real[target.variant].draft)
            for target in plan.targets
        )
        plan = replace(plan, targets=targets, warmup=1)
        if test_cases:
            plan = plan.only(test_cases)
        run(plan, folder / plan.run, on_event=on_event)
    finally:
        engine.stop()
    return folder / plan.run
