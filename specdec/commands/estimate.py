"""``specdec estimate``: what an hour costs and what a token may cost, without asking AWS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from specdec import console
from specdec.catalog.instances import INSTANCES
from specdec.commands.options import experiment_option, hours_option, json_option, one_of, region_option
from specdec.commands.workload import today, workload_of
from specdec.errors import EXIT_OK

if TYPE_CHECKING:
    from specdec.pricing.elsewhere import Candidate
    from specdec.pricing.predict import Prediction


@click.command()
@experiment_option
@region_option
@hours_option
@json_option
def command(experiment_path: Path, region: str | None, hours: float, as_json: bool) -> int:
    """List what an hour costs, item by item, with the source of every price; asks nobody.

    Says which loads need a compile of their own, and the cheapest set of compiles. What a token takes and
    costs, how long the planned run is and which acceptance makes a draft pay are predictions from published
    results. The same experiment is put on every other instance that the catalogue knows, with the reason
    where it cannot run.
    """
    from specdec.experiment.reading import load
    from specdec.pricing.compiles import compiles
    from specdec.pricing.elsewhere import candidates
    from specdec.pricing.items import items

    experiment = load(experiment_path)
    name = one_of(experiment, region)
    workload = workload_of(experiment, base=experiment_path.parent)
    table = items(experiment, name, workload, today=today())
    compared = candidates(experiment, name, workload, today=today())
    compiled = compiles(experiment, name)
    known = sum(entry.usd_per_hour for entry in table if entry.usd_per_hour is not None)
    if as_json:
        document = {
            "region": name,
            "items": [entry.plain() for entry in table],
            "usd_per_hour": known,
            "hours": hours,
            "usd": known * hours,
            "predictions": [prediction.plain() for prediction in compared[0].predictions],
            "compiles": [plan.plain() for plan in compiled],
            "compared": [candidate.plain() for candidate in compared],
        }
        console.show_json(document)
        return EXIT_OK
    if workload.too_few is not None:
        console.say(f"warning: {workload.too_few}")
    rows = [
        [
            entry.name,
            f"{entry.count:.0f}",
            "not known" if entry.usd_per_hour is None else f"{entry.usd_per_hour:.3f} USD/h",
            f"{entry.source}{f' ({entry.date})' if entry.date else ''}",
        ]
        for entry in table
    ]
    total = f"{known * hours:.2f} USD for {hours:g} hour{'' if hours == 1 else 's'}"
    rows.append(["total of known prices", "", f"{known:.3f} USD/h", total])
    without = sum(entry.usd_per_hour or 0 for entry in table if not entry.while_up)
    rows.append(["the same without accelerator nodes", "", f"{without:.3f} USD/h", ""])
    console.show(console.table(_ITEMS, rows, heading=False))
    console.show(f"\nGraphs that {experiment.stack.name} compiles for these loads:")
    for plan in compiled:
        console.show(f"  {plan.variant}: {plan.says}.")
    console.show("\nPredicted, not measured:")
    for candidate in compared:
        _candidate(candidate)
    console.show(
        "A verdict holds for the instance and the parallelism it was measured on. A draft pays earlier where"
        " plain\nsteps wait for memory than where they wait for layers and collectives."
    )
    return EXIT_OK


_ITEMS = [
    console.Column("name"),
    console.Column("count", right=True),
    console.Column("price", right=True),
    console.Column("source"),
]


def _candidate(candidate: Candidate) -> None:
    if candidate.refused is not None:
        console.show(f"  {candidate.instance_type}: cannot run it: {candidate.refused}")
        return
    shape = f"{candidate.nodes} node{'s' if candidate.nodes > 1 else ''}"
    if candidate.devices is not None and candidate.tensor_parallel_degree is not None:
        devices, degree = candidate.devices, candidate.tensor_parallel_degree
        shape += f", {devices} device{'s' if devices > 1 else ''} a service, TP{degree}"
    nodes, total = candidate.node_usd_per_hour, candidate.usd_per_hour
    hour = "price not known" if nodes is None else f"{_dollars(nodes)} USD an hour for nodes"
    hour += "" if total is None else f", {total:.2f} with everything"
    console.show(f"  {candidate.instance_type}{' (yours)' if candidate.own else ''}: {shape}: {hour}")
    if candidate.price:
        console.show(f"    node price: {candidate.price}")
    if candidate.block and nodes is not None:
        console.show(f"    a Capacity Block is paid in full: 24 hours are {24 * nodes:.2f} USD")
    for guess in INSTANCES[candidate.instance_type].unverified if candidate.own else ():
        console.show(f"    not verified: {guess}")
    if candidate.hours is not None:
        money = f", {candidate.usd[0]:.2f} to {candidate.usd[1]:.2f} USD" if candidate.usd else ""
        console.show(
            f"    the planned run: {candidate.hours[0]:.1f} to {candidate.hours[1]:.1f} hours from the nodes'"
            f" first start (loading, compiling and measuring; pulling the image comes on top){money}"
        )
    for prediction in candidate.predictions:
        tpot = f"TPOT {prediction.tpot[0] * 1e3:.1f} to {prediction.tpot[1] * 1e3:.1f} ms"
        usd = prediction.share_usd
        cost = f", {usd[0]:.2f} to {usd[1]:.2f} USD per million output tokens for its share" if usd else ""
        console.show(f"    {prediction.variant}: {tpot}{cost}{_break_even(prediction)}")


def _break_even(prediction: Prediction) -> str:
    if prediction.break_even is None:
        return ""
    low, high = prediction.break_even
    if low is None:
        return "; never pays at this window"
    upper = "never" if high is None else f"{high:.0%}"
    return f"; pays above an acceptance of {low:.0%} (best case) to {upper} (worst case)"


def _dollars(usd: float) -> str:
    """With cents, and tenths of them where there are some."""
    return f"{usd:.2f}" if abs(usd - round(usd, 2)) < 5e-4 else f"{usd:.3f}"
