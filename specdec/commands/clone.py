"""``specdec clone``: the same experiment in another region."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specdec import atomic, console
from specdec.commands import check as check_command
from specdec.commands.caller import caller_of
from specdec.commands.options import experiment_option
from specdec.commands.workload import today, workload_of
from specdec.errors import BadInputError, Mistake, SpecdecError

if TYPE_CHECKING:
    from specdec.deployed.clients import Clients
    from specdec.experiment.fields import Experiment


@click.command()
@click.argument("region")
@experiment_option
@click.option(
    "--zone", help="Zone of the accelerator nodes.  [default: the first that offers the instance type]"
)
@click.option(
    "--reservation-id", help="Reservation or Capacity Block in that zone, where capacity is bought so."
)
@click.option(
    "--copy",
    "copying",
    is_flag=True,
    help="Copy weights and artifacts there; the stack must be deployed in both regions.",
)
def command(
    region: str, experiment_path: Path, zone: str | None, reservation_id: str | None, copying: bool
) -> int:
    """Add REGION to the experiment file and check it; with --copy, take weights and artifacts along.

    A copy can be interrupted and run again: equal objects are kept, every object is compared after it is
    copied, and the marker of a complete folder is copied last.

    Regions that the catalogue refuses are refused without an account.

    Exit codes: as `specdec check`; 1 also if a copied object differs from its original.
    """
    from specdec import aws
    from specdec.catalog.regions import zones_of
    from specdec.deployed.clients import Clients
    from specdec.experiment.reading import load, parse
    from specdec.operate.clone import with_region
    from specdec.preflight.finding import Scope
    from specdec.preflight.run import run

    experiment = load(experiment_path)
    if region not in experiment.regions:
        _refuse_early(experiment_path, region, zone, reservation_id)
    session = aws.session()
    clients = Clients(session, region)
    account, caller = caller_of(
        clients, experiment_path, without="or make the two edits by hand, as docs/clone.md shows them"
    )
    if region not in experiment.regions:
        text = with_region(
            experiment_path.read_text(encoding="utf-8"),
            region=region,
            zone=zone or _zone(clients, experiment.capacity.instance_type),
            zones=() if zones_of(region) else _zones(clients, experiment.capacity.system_instance_type),
            reservation_id=reservation_id,
        )
        experiment = parse(text, source=f"{experiment_path} with {region}")
        atomic.write(experiment_path, text)
        console.say(f"{experiment_path}: added {region}, zone {experiment.placement[region].zone}")
    elif zone is not None and zone != experiment.placement[region].zone:
        raise BadInputError(
            str(experiment_path),
            [
                Mistake(
                    "--zone",
                    zone,
                    f"{region} is already there, in another zone",
                    f"Edit placement.{region}.zone",
                )
            ],
        )
    if copying:
        _copy(experiment, region, session)
    with console.progress(f"checking {region}") as progress:
        scope = Scope(
            experiment,
            region,
            clients,
            account,
            caller,
            workload_of(experiment, base=experiment_path.parent),
            today(),
        )
        findings = run(scope, on_done=progress.update)
    check_command.show(region, findings)
    return check_command.status(findings)


def _refuse_early(path: Path, region: str, zone: str | None, reservation_id: str | None) -> None:
    """Lets no region through that the catalogue refuses, before the account is asked.

    Raises:
        BadInputError: the file with the region would be wrong, whichever zone the account offers.
    """
    from specdec.catalog.regions import zones_of
    from specdec.experiment.reading import parse
    from specdec.operate.clone import with_region

    known = zones_of(region)
    guess = known or (f"{region}a", f"{region}b")
    text = with_region(
        path.read_text(encoding="utf-8"),
        region=region,
        zone=zone or guess[0],
        zones=() if known else guess,
        reservation_id=reservation_id,
    )
    parse(text, source=f"{path} with {region}")


def _zones(clients: Clients, instance_type: str) -> list[str]:
    """Zones that offer an instance type, sorted."""
    from specdec.aws import calls

    with calls():
        offered = clients("ec2").describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [instance_type]}]
        )["InstanceTypeOfferings"]
    return sorted(str(entry["Location"]) for entry in offered)


def _zone(clients: Clients, instance_type: str) -> str:
    zones = _zones(clients, instance_type)
    if not zones:
        raise SpecdecError(
            f"{instance_type} is not offered in {clients.region}",
            remedy="Choose another region, or name a zone with --zone to go on all the same",
        )
    return zones[0]


def _copy(experiment: Experiment, region: str, session: Any) -> None:
    from specdec.deployed.clients import Clients
    from specdec.deployed.markers import markers
    from specdec.deployed.stack import bucket_for
    from specdec.operate.clone import source_of
    from specdec.operate.copying import copy, keys_under

    origin = source_of(experiment, region)
    there, here = Clients(session, origin), Clients(session, region)
    buckets: list[str] = []
    for name, clients in ((origin, there), (region, here)):
        bucket = bucket_for(experiment, name, clients)
        if bucket is None:
            raise SpecdecError(
                f"there is no bucket in {name} yet",
                remedy=f"uv run npx cdk deploy {experiment.stack_name(name)}",
            )
        buckets.append(bucket)
    folders = [key.rsplit("/", 1)[0] + "/" for key in markers(experiment).values()]
    keys = keys_under(there("s3"), buckets[0], folders)
    with console.progress(f"copying {origin} to {region}") as progress:
        done = copy(there("s3"), buckets[0], here("s3"), buckets[1], keys, on_object=progress.update)
    console.say(
        f"{len(done.copied)} objects copied, {len(done.kept)} were there already; all compared with their"
        " originals"
    )
    if done.by_size_only:
        console.say(
            f"{len(done.by_size_only)} of them by size only, because the two buckets hold no checksum of the"
            " same kind"
        )
