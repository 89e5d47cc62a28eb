"""The inputs of a pricing command: the prompt set, and the day."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from specdec.experiment.fields import Experiment
    from specdec.pricing.workload import Workload


def workload_of(experiment: Experiment, *, base: Path | None = None) -> Workload:
    """What one run of the experiment's benchmark sends.

    Args:
        experiment: a checked experiment.
        base: folder that a relative ``benchmark.prompts`` path starts from; the current one by default.

    Raises:
        BadInputError: the prompt set cannot be read, or the services cannot take a prompt.
    """
    from specdec.analysis.sentences import too_few
    from specdec.experiment.prompt_fit import fitting
    from specdec.llmperf.results import PUBLISHED_CASES
    from specdec.pricing.workload import Workload

    chosen = fitting(experiment, base=base)
    counts = Counter(prompt.test_case for prompt in chosen)
    return Workload(
        prompts=len(chosen),
        test_cases=len(counts),
        llmperf_cases=len(PUBLISHED_CASES) if "llmperf" in experiment.benchmark.lanes else 0,
        too_few=too_few(counts),
    )


def today() -> date:
    """The day, UTC."""
    return datetime.now(UTC).date()
