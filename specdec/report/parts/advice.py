"""What to do next, with the commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from specdec.analysis.self_check import within_noise
from specdec.analysis.sentences import FEW_PROMPTS
from specdec.analysis.verdict import Comparison
from specdec.report.content import Command, Section, Text
from specdec.report.parts.view import View
from specdec.runs import command_line


def steps(view: View) -> Section:
    """The next steps that this run suggests, the most useful first."""
    return Section("next", "What next", points=tuple(_steps(view)))


def _steps(view: View) -> Iterator[Text]:
    run, again = view.run.manifest.run, Command(_again(view))
    if not view.complete:
        line = command_line.of(view.run.manifest)
        if line:
            yield "Go on where it ended: ", Command(command_line.resuming(line, run))
        yield "Or measure anew: " if line else "Measure again: ", again
        return
    rows = [row for row in view.verdict.comparisons if row.best_baseline]
    if not rows:
        yield "Measure a baseline and a speculative variant: ", again
        return
    undecided = [row for row in rows if row.decision == "undecided"]
    if undecided:
        yield from _what_would_decide(view, undecided, again)
    if any(row.parity.state == "differs" for row in rows):
        yield "See where the texts part, below, before you trust the speed of those test cases."
    if any(m.failures for m in view.verdict.measurements):
        yield "Look at what failed, below, and at the server's log."
    if view.verdict.windows:
        confirm = sorted({a.confirm for a in view.verdict.windows if a.confirm is not None})
        which = f"; the next to measure: {', '.join(map(str, confirm))}" if confirm else ""
        yield f"Choose the window{which}: ", Command(f"specdec tune {run}")
    elif any(row.decision == "helps" for row in rows):
        yield from _name_the_window(view, again)
    if not undecided:
        yield "Measure again after a change: ", again
    yield "Compare the two: ", Command(f"specdec report {run} NEW_RUN")


def _what_would_decide(view: View, undecided: list[Comparison], again: Command) -> Iterator[Text]:
    if not _own_prompts_alone(view):
        yield f"{_more(undecided)} Then measure again: ", again
        return
    yield (
        "A rehearsal measures its own prompts. To measure yours on its engine: ",
        Command("specdec rehearse --quick --keep"),
    )
    yield (
        "Then, with the addresses that it prints: ",
        Command("specdec bench --target plain=URL --target drafted=URL --prompts FILE"),
    )


def _name_the_window(view: View, again: Command) -> Iterator[Text]:
    why = "to learn whether another one is faster"
    if not again.text.startswith("specdec bench"):
        yield f"Name the windows in the experiment file, {why}."
        return
    named = " ".join(f"--window {shlex.quote(name)}=K" for name in view.verdict.speculative)
    yield f"Say which window was measured, in place of K, {why}: ", Command(f"{again.text} {named}")


def _more(rows: list[Comparison]) -> str:
    """Which test cases need more prompts, and how many where that is known."""
    needs = [
        (row.test_case, max(more, FEW_PROMPTS - row.tpot.prompts))
        for row in rows
        if row.tpot and (more := row.tpot.more_prompts or 0)
    ]
    near = [(case, more) for case, more in needs if 0 < more <= _REASONABLE]
    far = [case for case, more in needs if more > _REASONABLE]
    far += [row.test_case for row in rows if row.tpot and within_noise(row.tpot, row.floor)]
    parts: list[str] = []
    if near:
        most = max(more for _, more in near)
        count = (
            f"{most} more would settle it" if len(near) == 1 else f"up to {most} more each would settle them"
        )
        parts.append(f"Add prompts to {_some([case for case, _ in near])}: {count}.")
    if far:
        parts.append(
            f"More prompts alone will not settle {_some(far)} soon: the speeds are close, or noise is high."
            " Use a quieter machine or longer answers."
        )
    return " ".join(parts) or f"Add prompts to {_some([row.test_case for row in rows])}."


_REASONABLE = 100
"""Prompts per test case beyond which nobody adds them by hand."""


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _own_prompts_alone(view: View) -> bool:
    """Whether a rehearsal made the run, which takes no prompts of the user's."""
    environment = view.run.manifest.environment
    return not command_line.of(view.run.manifest) and "emulated" in environment and "engine" in environment


def _again(view: View) -> str:
    """The command that made this run; of older runs, as far as the manifest tells."""
    line = command_line.of(view.run.manifest)
    if line:
        return line
    environment = view.run.manifest.environment
    if _own_prompts_alone(view):
        return "specdec rehearse"
    if isinstance(environment.get("stack"), str):
        return "specdec run"
    targets = [
        f"--target {shlex.quote(f'{name}={url}')}"
        for name, url in ((name, facts.get("url")) for name, facts in view.run.manifest.variants.items())
        if url
    ]
    return " ".join(["specdec bench", *targets, "--prompts FILE …"])
