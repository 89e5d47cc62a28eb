"""One run of the exact lane, by one client or by several that meet."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from specdec import atomic, interrupts
from specdec.benchmark.course import Course, RunEvent, Switch
from specdec.benchmark.meeting import Meeting, Unaccompanied, meet
from specdec.benchmark.plan import Plan
from specdec.errors import BadInputError, Mistake
from specdec.runs.manifest import MANIFEST, RunManifest
from specdec.runs.record import RECORDS
from specdec.runs.shares import SHARE, merge, share_folder

if TYPE_CHECKING:
    from specdec.runs.folder import Run


def run(
    plan: Plan,
    folder: Path,
    *,
    interrupted: Run | None = None,
    on_event: Callable[[RunEvent], None] = lambda _: None,
    switch: Switch | None = None,
) -> RunManifest:
    """Carries out a plan.

    Each record is appended to ``records.jsonl`` and flushed when its request ends; ``manifest.json`` appears
    at the end, at once or not at all. Ctrl-C ends the run early with status ``interrupted``, a server that is
    gone, or does not come up for its phase, with ``failed``; both keep what was measured, and the manifest's
    ``problem`` says what happened. A run that is killed leaves its records and ``started.json``.

    A plan that clients share is begun when all have met. Each writes its share into a folder beside
    ``folder``, named by the id of the run and its index; member 0 takes in the others' and merges them.

    Args:
        plan: what to do.
        folder: the run's own folder, made if needed; without a run in it.
        interrupted: a run of the same plan, whose whole blocks are taken over and not measured again.
        on_event: told of every step, from the thread that called.
        switch: called at the start of each phase of a sequential run; None where all servers are there
            anyway.

    Raises:
        SpecdecError: a server does not answer before the run starts, or serves no model to ask for. Nothing
            was measured.
        BadInputError: the folder holds a run already, or the interrupted run was of another plan or model.
        EnvironmentFault: the folder cannot be written.
    """
    try:
        held = (folder / RECORDS).exists() or (folder / MANIFEST).exists()
    except OSError as error:
        raise atomic.unwritable(
            folder, error, remedy="Choose another folder, or allow writing there"
        ) from None
    if held:
        raise BadInputError(
            "run", [Mistake("folder", str(folder), "already holds a run", "Name a new folder")]
        )
    if plan.schedule == "sequential" and (interrupted is not None or plan.share.together):
        problem = "is sequential: its phases belong together, in one process"
        raise BadInputError("run", [Mistake("schedule", plan.run, problem, "Start a new run, by one client")])
    if plan.share.together:
        if interrupted is not None:
            problem = "is shared by several clients, and cannot go on where it was interrupted"
            raise BadInputError("resume", [Mistake("run", plan.run, problem, "Start a new run")])
        return interrupts.run(_together(plan, folder, on_event))
    return interrupts.run(Course(plan, folder, interrupted, on_event, Unaccompanied(), switch).execute())


async def _together(plan: Plan, folder: Path, on_event: Callable[[RunEvent], None]) -> RunManifest:
    """This client's share of a run. Member 0 returns the manifest of the whole, merged in ``folder``; the
    others, and whoever is left alone, that of their own share.
    """
    share = plan.share

    async def measure(meeting: Meeting, run: str) -> RunManifest:
        own = share_folder(folder.parent / run, share.index)
        if (own / RECORDS).exists():
            raise BadInputError(
                "run", [Mistake("folder", str(own), "holds a share already", "Name a new folder")]
            )
        named = dataclasses.replace(
            plan,
            run=run,
            environment={**plan.environment, SHARE: {"index": share.index, "of": share.of}},
        )
        manifest = await Course(named, own, None, on_event, meeting).execute()
        await meeting.deliver(own, (RECORDS, MANIFEST), complete=manifest.status == "complete")
        return merge(own.parent) if share.index == 0 else manifest

    on_event(RunEvent(f"waiting for {share.of} clients to meet at {share.meet}", 0, plan.total))
    met: RunManifest = await meet(share, plan.digest, plan.run, measure)
    return met
