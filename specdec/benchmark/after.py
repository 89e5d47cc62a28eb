"""What follows the measured part of a run: whether its texts can be believed. Nothing here is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from specdec.benchmark import answers
from specdec.benchmark.plan import Plan
from specdec.rejoin import store
from specdec.rejoin.api import Api
from specdec.rejoin.follow import asked_of, follow, pending_of
from specdec.runs.answers import SAMPLING
from specdec.runs.folder import Run

MOST_SECONDS = 600.0
"""That the checks of one run may take: a node is paid for meanwhile."""

Progress = Callable[[str, int, int], None]
"""Told what is done, and how many of how many are."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked after a run.

    Attributes:
        parted: different texts of greedy pairs that part; of these, ``followed`` along the baseline.
        followed: see ``parted``.
        sampled: whether short answers were asked for above temperature 0.
    """

    parted: int
    followed: int
    sampled: bool

    @property
    def says(self) -> str:
        """For a person; empty where there was nothing to check."""
        said: list[str] = []
        if self.parted:
            rest = (
                ""
                if self.followed == self.parted
                else f" within {MOST_SECONDS:.0f} s; go on with specdec rejoin"
            )
            said.append(f"{self.followed} of {self.parted} texts that part were followed{rest}")
        if self.sampled:
            said.append("short answers above temperature 0 were compared")
        return "; ".join(said)


def check_texts(run: Run, plan: Plan, on_progress: Progress = lambda _what, _done, _total: None) -> Checked:
    """Follows greedy texts that part along the baseline, and asks for short answers above temperature 0. What
    is kept beside the records is taken up by the report.

    Ctrl-C ends it, and loses nothing.

    Args:
        run: just measured.
        plan: of the run: addresses, prompts, headers and certificates.
        on_progress: see ``Progress``.

    Raises:
        SpecdecError: a server does not answer any more.
    """
    until = time.monotonic() + MOST_SECONDS
    pending = pending_of(run)
    followed = _follow(run, plan, until, on_progress)
    hot = hottest(run)
    # One after the other, the last phase leaves the baseline alone.
    sampled = hot > 0 and len(run.manifest.variants) > 1 and plan.schedule != "sequential"
    if sampled:
        short = answers.plan_after(
            run, plan, [answers.sampling_prompt()], temperature=hot, repeats=answers.SHORT_ANSWERS
        )
        draw(
            short,
            run.folder,
            run.manifest.dropped,
            lambda done, total: on_progress("short answers", done, total),
            most_seconds=max(1.0, until - time.monotonic()),
        )
    return Checked(len(pending), followed, sampled)


def needed(run: Run) -> bool:
    """Whether there is anything to check."""
    return bool(pending_of(run)) or (hottest(run) > 0 and len(run.manifest.variants) > 1)


def hottest(run: Run) -> float:
    """The highest temperature that was asked for in the exact lane."""
    return max((record.temperature for record in run.records if record.lane == "exact"), default=0.0)


def draw(
    plan: Plan,
    folder: Path,
    dropped: Sequence[str],
    on_progress: Callable[[int, int], None],
    *,
    most_seconds: float | None = None,
) -> None:
    """Asks every variant for ``plan.repeats`` short answers to the plan's prompt, and keeps them.

    Args:
        plan: see ``answers.plan_of``; its temperature is above 0.
        folder: of the run.
        dropped: see ``answers.ask``.
        on_progress: told of how many of how many answers have come.
        most_seconds: after which it ends with what has come.

    Raises:
        SpecdecError: a server does not answer.
    """
    short = replace(plan, output_tokens=answers.SHORT_TOKENS)
    answers.ask(
        short,
        answers.repeated(short),
        folder / SAMPLING,
        lane=answers.SAMPLING,
        dropped=dropped,
        on_progress=on_progress,
        most_seconds=most_seconds,
    )


def _follow(run: Run, plan: Plan, until: float, on_progress: Progress) -> int:
    pending = pending_of(run)
    if not pending:
        return 0
    name = pending[0].baseline.variant
    url = next(target.url for target in plan.targets if target.variant == name)
    prompts = {
        prompt.id: tuple((turn.role, turn.content) for turn in prompt.conversation) for prompt in plan.prompts
    }
    api = Api(url, headers=plan.headers, timeout=plan.timeouts.stall, tls=plan.tls())
    done = 0
    for each in follow(
        pending,
        asked_of(prompts, run.manifest.variants[name].get("model")),
        api,
        scorer=False,
        stop=lambda: time.monotonic() > until,
        on_progress=lambda count, total: on_progress("texts that part", count, total),
    ):
        store.append(run.folder, each, hide=plan.secrets.hide_in)
        done += each.variant != each.against
    return done
