"""After the measured part of ``specdec bench``: texts that part are followed, sampled ones compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from specdec import console
from specdec.errors import SpecdecError

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan


def run(plan: Plan, folder: Path) -> None:
    """Checks whether the texts can be believed. If the check stops, the run keeps everything."""
    from specdec.analysis.judge import judge
    from specdec.benchmark import after
    from specdec.rejoin import store
    from specdec.runs import answers
    from specdec.runs.folder import read_run

    measured = read_run(folder)
    if not after.needed(measured):
        return
    said = ""
    with console.progress("checking the texts (Ctrl-C leaves it out)") as step:
        try:
            said = after.check_texts(measured, plan, step.update).says
        except KeyboardInterrupt:
            step.outcome = "left out; specdec rejoin and specdec sampling do it later"
        except SpecdecError as error:
            step.outcome = "failed"
            console.say(f"the texts are not checked: {error}")
    if said:
        console.say(said)
    verdict = judge(
        measured.manifest,
        measured.records,
        rejoined=store.read(folder),
        short_answers=answers.read(folder, answers.SAMPLING),
    )
    for row in verdict.comparisons:
        if row.parity.differences and row.parity.because:
            console.say(f"{row.variant} on {row.test_case}: {row.parity.state}: {row.parity.because}")
    for test in verdict.sampled:
        console.say(test.says)
