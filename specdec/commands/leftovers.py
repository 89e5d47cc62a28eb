"""``specdec leftovers``: what still exists after ``cdk destroy``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from specdec import console
from specdec.commands.caller import caller_of
from specdec.commands.options import experiment_option, json_option, regions_option
from specdec.errors import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from specdec.preflight.leftovers import Leftover


@click.command()
@experiment_option
@regions_option
@json_option
def command(experiment_path: Path, region: str | None, as_json: bool) -> int:
    """List whatever has the experiment's names or tags and still exists, with the command that removes it.

    Removes nothing itself. Exit codes: 0 nothing but what the experiment says to keep; 1 something is left;
    3 no access to AWS.
    """
    from specdec import aws
    from specdec.deployed.clients import Clients
    from specdec.experiment.reading import load
    from specdec.preflight.leftovers import find

    experiment = load(experiment_path)
    session = aws.session()
    leftovers: list[Leftover] = []
    for name in (region,) if region else experiment.regions:
        clients = Clients(session, name)
        caller_of(clients, experiment_path)
        with console.progress(f"looking for leftovers in {name}"):
            leftovers.extend(find(experiment, name, clients))
    if as_json:
        console.show_json([leftover.plain() for leftover in leftovers])
    else:
        for leftover in leftovers:
            console.show(f"{leftover.region}  {leftover.kind}  {leftover.name}")
            console.show(
                f"    {f'kept: {leftover.kept}; to remove it' if leftover.kept else 'remove'}:"
                f" {leftover.remove}"
            )
        if not leftovers:
            console.show("nothing is left")
    return EXIT_FAILED if any(leftover.kept is None for leftover in leftovers) else EXIT_OK
