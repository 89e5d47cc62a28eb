"""``specdec nodes``: the accelerator nodes of a deployed stack, and the progress of everything on them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specdec import console
from specdec.commands.caller import caller_of
from specdec.commands.options import experiment_option, json_option, one_of, region_option
from specdec.errors import EXIT_FAILED, EXIT_OK, SpecdecError

if TYPE_CHECKING:
    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment
    from specdec.operate.nodes import Step


def opened(experiment_path: Path, region: str | None) -> tuple[Experiment, str, Clients]:
    """The experiment, the region meant, and clients of it whose credentials are known to be good."""
    from specdec import aws
    from specdec.deployed.clients import Clients
    from specdec.experiment.reading import load

    experiment = load(experiment_path)
    name = one_of(experiment, region)
    clients = Clients(aws.session(), name)
    caller_of(clients, experiment_path)
    return experiment, name, clients


def steps_of(experiment: Experiment, region: str, clients: Clients) -> tuple[list[Step], str | None]:
    """Every step that can be known, and the reason if the cluster itself could not be asked."""
    from specdec.operate import kubernetes, nodes, workloads

    steps = nodes.status(experiment, region, clients)
    try:
        return [*steps, *workloads.status(kubernetes.Kubectl(experiment, region, clients), experiment)], None
    except SpecdecError as error:
        return steps, f"{error} (remedy: {error.remedy})" if error.remedy else str(error)


@click.group()
def command() -> None:
    """Set the number of accelerator nodes, and follow what happens on them."""


@command.command()
@click.argument("nodes", type=click.IntRange(min=1), required=False)
@experiment_option
@region_option
def up(nodes: int | None, experiment_path: Path, region: str | None) -> int:
    """Start NODES accelerator nodes (by default as many as the variants need). They are paid from the moment
    they run.

    The benchmark that a deployment brings waits for them and starts by itself, once: where it has ended,
    `specdec run` starts another. The guard that sets the nodes to 0 counts its hours from now.
    """
    from specdec.errors import NoAccessError
    from specdec.operate.guard import postpone
    from specdec.operate.nodes import latest_run, resize, unstaged

    experiment, name, clients = opened(experiment_path, region)
    count = nodes or experiment.nodes_needed
    for what in unstaged(experiment, name, clients):
        console.say(
            f"{what} are not in the bucket yet: the nodes will wait for them and cost money meanwhile"
        )
    benchmark = latest_run(experiment, name, clients)
    if benchmark is not None and benchmark.state != "waiting":
        console.say(
            f"no benchmark starts by itself: that of the stack has ended ({benchmark.detail}). Start another:"
            " specdec run"
        )
    group = resize(experiment, name, clients, nodes=count)
    console.show(f"{group} in {name}: {count} nodes wanted")
    try:
        comes = postpone(experiment.stack_name(name), group, clients, now=datetime.now(UTC))
    except NoAccessError as error:
        console.say(f"the guard could not be postponed ({error}): it may set the nodes to 0 at any time")
    else:
        until = f"they are set to 0 at {comes:%Y-%m-%d %H:%M} UTC" if comes else "no guard sets them to 0"
        console.say(f"{until}; sooner with: specdec nodes down")
    console.say("Follow it with: specdec nodes status")
    return EXIT_OK


@command.command()
@experiment_option
@region_option
def down(experiment_path: Path, region: str | None) -> int:
    """Stop all accelerator nodes. Weights, artifacts and runs stay in the bucket."""
    from specdec.operate.nodes import resize

    experiment, name, clients = opened(experiment_path, region)
    group = resize(experiment, name, clients, nodes=0)
    console.show(f"{group} in {name}: 0 nodes wanted")
    console.say("Follow it with: specdec nodes status")
    return EXIT_OK


@command.command()
@experiment_option
@region_option
@json_option
def status(experiment_path: Path, region: str | None, as_json: bool) -> int:
    """Show how far everything is: capacity, instances, weights, artifacts, services, benchmark.

    Services and jobs are shown where kubectl is installed and reaches the cluster's API; all else comes from
    AWS.

    Looks once. Exit codes: 0 nothing has failed; 1 something has; 3 no access to AWS.
    """
    experiment, name, clients = opened(experiment_path, region)
    steps, unasked = steps_of(experiment, name, clients)
    if as_json:
        console.show_json({"region": name, "steps": [step.plain() for step in steps], "not_asked": unasked})
    else:
        show(steps)
        if unasked:
            console.say(f"services and jobs not known: {unasked}")
    return EXIT_FAILED if any(step.state == "failed" for step in steps) else EXIT_OK


def show(steps: list[Step]) -> None:
    """Prints steps in the order in which they come about."""
    colours = {"done": "green", "waiting": "yellow", "failed": "red"}
    width = max(len(step.name) for step in steps)
    for step in steps:
        since = f"  since {step.since}" if step.since else ""
        state = console.Styled(f"{step.state:9}", colours.get(step.state, ""))
        console.show(f"{step.name:{width}}  ", state, f"  {step.detail}{since}  ({step.source})")
