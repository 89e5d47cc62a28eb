"""What a pricing command must know of the outside: the prompt set, and the day."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment
    from specdec.pricing.workload import Workload


def workload_of(experiment: Experiment) -> Workload:
    """What one run of the experiment's benchmark sends.

    Raises:
        BadInputError: the prompt set cannot be read.
    """
    from specdec.llmperf.results import PUBLISHED_CASES
    from specdec.pricing.workload import Workload
    from specdec.prompts import sets as prompts

    chosen = prompts.load(experiment.benchmark.prompts)
    return Workload(
        prompts=len(chosen),
        test_cases=len({prompt.test_case for prompt in chosen}),
        llmperf_cases=len(PUBLISHED_CASES) if "llmperf" in experiment.benchmark.lanes else 0,
    )


def today() -> date:
    """The day, UTC."""
    return datetime.now(UTC).date()
