"""``specdec estimate``: what an hour costs and what a token may cost, without asking AWS."""

from __future__ import annotations

from pathlib import Path

import click

from specdec import console
from specdec.commands.options import experiment_option, hours_option, json_option, one_of, region_option
from specdec.commands.workload import today, workload_of
from specdec.errors import EXIT_OK


@click.command()
@experiment_option
@region_option
@hours_option
@json_option
def command(experiment_path: Path, region: str | None, hours: float, as_json: bool) -> int:
    """List what an hour costs, item by item, with the source of every price; asks nobody.

    What a token may cost is a prediction: the span of published results on the memory-bandwidth limit of the
    instance.
    """
    from specdec.experiment.reading import load
    from specdec.pricing.items import items
    from specdec.pricing.predict import EFFICIENCIES, SPEED_UPS, predict

    experiment = load(experiment_path)
    name = one_of(experiment, region)
    table = items(experiment, name, workload_of(experiment), today=today())
    predictions = predict(experiment, name)
    known = sum(entry.usd_per_hour for entry in table if entry.usd_per_hour is not None)
    if as_json:
        document = {
            "region": name,
            "items": [entry.plain() for entry in table],
            "usd_per_hour": known,
            "hours": hours,
            "usd": known * hours,
            "predictions": [prediction.plain() for prediction in predictions],
        }
        console.show_json(document)
        return EXIT_OK
    width = max(len(entry.name) for entry in table)
    for entry in table:
        price = "not known" if entry.usd_per_hour is None else f"{entry.usd_per_hour:.3f}"
        console.show(
            f"{entry.name:{width}}  {entry.count:8.0f}  {price:>9} USD/h "
            f" {entry.source}{f' ({entry.date})' if entry.date else ''}"
        )
    console.show(
        f"{'all that is known':{width}}  {'':8}  {known:9.3f} USD/h  {known * hours:.2f} USD for {hours:g}"
        " hours"
    )
    console.show("")
    low, high = (f"{share:.0%}" for share in EFFICIENCIES)
    console.show(
        f"Predicted, not measured: published services reach {low} to {high} of the memory-bandwidth limit, "
        f"and speculation {SPEED_UPS[0]:g} to {SPEED_UPS[1]:g} times the speed."
    )
    for prediction in predictions:
        tpot = f"TPOT {prediction.tpot[0] * 1e3:.1f} to {prediction.tpot[1] * 1e3:.1f} ms"
        usd = prediction.share_usd
        money = (
            f", {usd[0]:.2f} to {usd[1]:.2f} USD per million output tokens for its share of the node"
            if usd
            else ""
        )
        console.show(f"  {prediction.variant}: {tpot}{money}")
    return EXIT_OK
