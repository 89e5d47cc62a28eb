"""One example deployed into the embedded account and destroyed again, by the real CDK command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import charts
from specdec.deployed.clients import Clients
from specdec.experiment.reading import load
from specdec.preflight import leftovers
from specdec.rehearsal.cdk import Cdk
from specdec.rehearsal.emulator import EmbeddedAws
from specdec.rehearsal.emulator.cluster import Manifest


def deployed_and_destroyed(path: Path, aws: EmbeddedAws, folder: Path) -> Iterator[str]:
    """What went wrong: a stack that is not complete, objects that did not arrive, something left over.

    Args:
        path: the example.
        aws: a running account with nothing in it.
        folder: for the cloud assembly.

    Raises:
        SpecdecError: the CDK fails.
    """
    experiment = load(path)
    cdk = Cdk(aws, path, folder / "cdk")
    cdk.synth()
    cdk.bootstrap(experiment.regions)
    cdk.deploy()
    for region in experiment.regions:
        session, stack = aws.session(region), experiment.stack_name(region)
        (seen,) = session.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        if seen["StackStatus"] != "CREATE_COMPLETE":
            yield f"{stack} is {seen['StackStatus']}"
        (bucket,) = [output["OutputValue"] for output in seen["Outputs"] if output["OutputKey"] == "Bucket"]
        built = charts.build(experiment, region=region, bucket=bucket)
        wanted = {name_of(item) for chart in built.values() for item in chart.to_json()}
        there = {name_of(item) for item in aws.cluster(region).objects.values()}
        yield from (f"{name} did not reach the cluster" for name in sorted(wanted - there))
        yield from (f"{name} is in the cluster, and in no chart" for name in sorted(there - wanted))
    cdk.destroy()
    for region in experiment.regions:
        left = leftovers.find(experiment, region, Clients(aws.session(region), region))
        yield from (f"left over: {each.kind} {each.name}" for each in left if each.kept is None)


def name_of(item: Manifest) -> str:
    """Kind and name of an object."""
    return f"{item['kind']}/{item['metadata']['name']}"
