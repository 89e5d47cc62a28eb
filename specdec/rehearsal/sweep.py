"""A sweep of windows on an engine of this machine, where another window costs seconds and not a compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specdec.rehearsal import local

if TYPE_CHECKING:
    from specdec.benchmark.course import RunEvent
    from specdec.experiment.fields import Experiment, Variant
    from specdec.rehearsal.engines import Engine
    from specdec.runs.manifest import RunManifest


def variants(experiment: Experiment, windows: Sequence[int]) -> tuple[Variant, ...]:
    """The baseline, and the experiment's first speculative variant once per window."""
    drafted = next(variant for variant in experiment.variants if variant.speculative)
    made = (
        drafted.model_copy(
            update={"name": f"window-{window}", "service": f"window-{window}", "window": window}
        )
        for window in windows
    )
    return (experiment.baseline, *made)


def sweep(
    experiment: Experiment,
    windows: Sequence[int],
    engine: Engine,
    folder: Path,
    *,
    test_cases: tuple[str, ...] = (),
    base: Path | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
    on_event: Callable[[RunEvent], None] = lambda _: None,
) -> RunManifest:
    """Measures the baseline and every window side by side, as one run with a variant per window.

    Args:
        experiment: whose prompts are asked.
        windows: num_speculative_tokens to try.
        engine: serves them; it is checked, prepared, started and stopped here.
        folder: of the runs; the run's own folder is made in it.
        test_cases: only these; all by default.
        base: folder that a relative prompt file starts from.
        on_progress: told what the engine does.
        on_event: told of every request.

    Returns:
        The run's manifest; the run is in the folder of its id.

    Raises:
        BadInputError: a wrong prompt file, or a test case that it does not have.
        SpecdecError: the engine cannot serve here, or the run failed before it began.
    """
    from specdec.benchmark.plan import Plan
    from specdec.benchmark.run import run

    swept = local.cut(experiment, local.OUTPUT_TOKENS).model_copy(
        update={"variants": variants(experiment, windows)}
    )
    local.require_test_cases(swept, base, test_cases)
    engine.check()
    engine.prepare(on_progress)
    try:
        services = engine.start(swept.variants, folder / "logs", on_progress)
        plan = Plan.from_experiment(
            swept,
            {service.variant: service.url for service in services},
            base=base,
            environment={"engine": engine.facts()},
        )
        plan = local.as_served(plan, services)
        if test_cases:
            plan = plan.only(test_cases)
        manifest = run(plan, folder / plan.run, on_event=on_event)
    finally:
        engine.stop()
    return manifest
