"""``specdec check``: what in this account and region would fail, and what it will cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from specdec import console
from specdec.commands.caller import caller_of
from specdec.commands.options import experiment_option, hours_option, json_option, one_of, regions_option
from specdec.commands.workload import today, workload_of
from specdec.errors import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_NO_ACCESS, EXIT_OK

if TYPE_CHECKING:
    from specdec.preflight.finding import Finding


@click.command()
@experiment_option
@regions_option
@hours_option
@json_option
def command(experiment_path: Path, region: str | None, hours: float, as_json: bool) -> int:
    """Look before spending: everything that would make the deployment fail, and what an hour costs.

    Reads only. Exit codes: 0 no blocker; 1 blockers; otherwise 3 if the identity may not ask some question,
    and 4 if AWS did not answer one. An unknown never counts as a pass.
    """
    from specdec import aws
    from specdec.deployed.clients import Clients
    from specdec.experiment.reading import load
    from specdec.preflight.finding import Scope
    from specdec.preflight.run import run

    experiment = load(experiment_path)
    workload = workload_of(experiment, base=experiment_path.parent)
    regions = (one_of(experiment, region),) if region else experiment.regions
    session = aws.session()
    findings_by_region: dict[str, list[Finding]] = {}
    for name in regions:
        clients = Clients(session, name)
        account, caller = caller_of(clients, experiment_path)
        scope = Scope(experiment, name, clients, account, caller, workload, today(), hours)
        with console.progress(f"checking {name}") as progress:
            findings_by_region[name] = run(
                scope, on_done=lambda what, done, total, step=progress: step.update(what, done, total)
            )
    if as_json:
        console.show_json(
            {name: [finding.plain() for finding in findings] for name, findings in findings_by_region.items()}
        )
    else:
        for name, findings in findings_by_region.items():
            show(name, findings)
    return status([finding for findings in findings_by_region.values() for finding in findings])


def show(region: str, findings: list[Finding]) -> None:
    """Prints findings, worst first, each with its remedy below it."""
    from specdec.preflight.finding import LEVELS

    colours = {"blocker": "red", "unknown": "magenta", "warning": "yellow", "ok": "green"}
    console.show(f"{region}")
    for level in LEVELS:
        for finding in findings:
            if finding.level == level:
                console.show(
                    "  ", console.Styled(f"{level:8}", colours[level]), f" {finding.check}: {finding.what}"
                )
                if finding.remedy:
                    console.show(f"           remedy: {finding.remedy}")
    counts = {level: sum(finding.level == level for finding in findings) for level in LEVELS}
    console.show("  " + ", ".join(f"{count} {level}" for level, count in counts.items() if count))


def status(findings: list[Finding]) -> int:
    """The exit code that the findings amount to."""
    if any(finding.level == "blocker" for finding in findings):
        return EXIT_FAILED
    denied = sorted({finding.denied for finding in findings if finding.denied})
    if denied:
        console.say(f"error: not allowed: {', '.join(denied)}")
        return EXIT_NO_ACCESS
    unanswered = list(dict.fromkeys(finding.check for finding in findings if finding.level == "unknown"))
    if unanswered:
        console.say(f"error: no answer about {', '.join(unanswered)}")
        return EXIT_ENVIRONMENT
    return EXIT_OK
