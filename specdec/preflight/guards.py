"""Whether a forgotten node would end by itself, and whether anybody would hear of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from specdec.experiment.stack_checks import past_mistakes
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdec.experiment.fields import Experiment


def guards(scope: Scope) -> Iterator[Finding]:
    """What limits the spend."""
    yield from judge_guards(scope.experiment, datetime.now(UTC))


def judge_guards(experiment: Experiment, now: datetime) -> Iterator[Finding]:
    """Reads the guards of the experiment; ``now`` in UTC."""
    limits = experiment.guards
    past = list(past_mistakes(limits, now))
    for mistake in past:
        yield Finding(
            "guards", "blocker", f"{mistake.field} = {mistake.value} {mistake.problem}", mistake.remedy
        )
    if not limits.scale_down_every_hours and (limits.scale_down_at is None or past):
        yield Finding(
            "guards",
            "warning",
            "nothing stops a forgotten node",
            "Set guards.scale_down_every_hours = 12",
        )
    elif not past:
        hours = limits.scale_down_every_hours
        when = f"every {hours} hours" if hours else f"at {limits.scale_down_at} UTC"
        yield Finding("guards", "ok", f"the accelerator nodes are set to 0 {when}")
