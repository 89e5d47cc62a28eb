"""``specdec manifests``: every Kubernetes object of the experiment, as YAML."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specdec import console
from specdec.commands.options import experiment_option, region_option
from specdec.commands.workload import workload_of
from specdec.errors import BadInputError, Mistake

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment


@click.command()
@experiment_option
@region_option
@click.option("--bucket", help="Name of the bucket.  [default: a placeholder]")
@click.option(
    "--chart",
    "chart",
    help="One chart: namespace, device-claims, model-storage, model-staging, llmperf (the"
    " benchmark, whatever its lanes), or a service.",
)
@click.option("--list", "listing", is_flag=True, help="List the objects instead of printing them.")
@click.option(
    "--mirror",
    "mirroring",
    is_flag=True,
    help="Print what a network without internet needs instead: a command for each image and chart to copy,"
    " and the VPC endpoints.",
)
def command(
    experiment_path: Path,
    region: str | None,
    bucket: str | None,
    chart: str | None,
    listing: bool,
    mirroring: bool,
) -> None:
    """Print what the deployment hands to Kubernetes, for reading, diffing or kubectl.

    Without --bucket the name is a placeholder, since the stack's own is known only once it exists (output
    `Bucket`).
    """
    # cdk8s runs on whichever node comes first; the one that was installed with this program is the one it was
    # tested with.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    import cdk8s

    import charts
    from specdec.experiment.reading import load

    experiment = load(experiment_path)
    where = region or experiment.regions[0]
    if where not in experiment.regions:
        remedy = f"Use one of {', '.join(experiment.regions)}"
        raise BadInputError(
            "command line", [Mistake("--region", where, "is not a region of the experiment", remedy)]
        )
    if mirroring:
        _show_mirror(experiment, where)
        return
    built = charts.build(
        experiment,
        region=where,
        bucket=bucket or f"{experiment.stack_name(where)}-bucket",
        base=experiment_path.parent,
    )
    if chart is not None and chart not in built:
        raise BadInputError(
            "command line",
            [Mistake("--chart", chart, "is not a chart of the experiment", f"Use one of {', '.join(built)}")],
        )
    objects = [(key, item) for key, each in built.items() if chart in (None, key) for item in each.to_json()]
    warning = workload_of(experiment, base=experiment_path.parent).too_few
    if warning is not None:
        console.say(f"warning: {warning}")
    if listing:
        console.show_table(
            [console.Column("chart"), console.Column("kind"), console.Column("name")],
            [(key, item["kind"], item["metadata"]["name"]) for key, item in objects],
            heading=False,
        )
    else:
        console.show(cdk8s.Yaml.stringify(*(item for _, item in objects)).removesuffix("\n"))


def _show_mirror(experiment: Experiment, region: str) -> None:
    from specdec.experiment.endpoints import endpoints_of
    from specdec.preflight.mirror import copying, logging_in, making, pulled

    wanted = pulled(experiment, region)
    if not wanted:
        remedy = "Set it, and network.neuron_chart: docs/platform-team.md"
        mistake = Mistake("network.image_prefix", None, "names no mirror", remedy)
        raise BadInputError("experiment", [mistake])
    prepared = [
        line for step in (logging_in, making) for line in dict.fromkeys(map(step, wanted.values())) if line
    ]
    if prepared:
        console.show(
            "# A login, and the repositories: ECR makes none on push unless a creation template says so"
        )
    for line in prepared:
        console.show(line)
    console.show(f"# Images and charts of {region}; crane keeps their digests")
    for public, place in wanted.items():
        console.show(copying(public, place))
    console.show(
        "# Endpoints of the VPC: a gateway endpoint for s3, and interface endpoints with private DNS"
    )
    for service in endpoints_of(experiment):
        console.show(f"# com.amazonaws.{region}.{service}")
