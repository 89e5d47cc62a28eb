"""``specdec runs``: the runs in the bucket of a deployed stack."""

from __future__ import annotations

from pathlib import Path

import click

from specdec import console
from specdec.commands.nodes import opened
from specdec.commands.options import experiment_option, json_option, region_option
from specdec.errors import EXIT_OK, SpecdecError


@click.command()
@experiment_option
@region_option
@json_option
def command(experiment_path: Path, region: str | None, as_json: bool) -> int:
    """List the runs that have ended, the newest first. `specdec report --stack NAME RUN` makes the verdict of
    one.
    """
    from specdec.deployed.stack import bucket_for
    from specdec.runs.bucket import ended, outcome

    experiment, name, clients = opened(experiment_path, region)
    bucket = bucket_for(experiment, name, clients)
    if bucket is None:
        raise SpecdecError(
            f"there is no bucket in {name} yet", remedy=f"uv run npx cdk deploy {experiment.stack_name(name)}"
        )
    s3 = clients("s3")
    listed = [
        {"run": run.run, "ended": run.at, "outcome": outcome(run.run, s3, bucket), "bucket": bucket}
        for run in ended(s3, bucket)
    ]
    if as_json:
        console.show_json(listed)
    else:
        heads = ("run", "ended", "outcome")
        if listed:
            rows = [[item[head] for head in heads] for item in listed]
            console.show_table([console.Column(head) for head in heads], rows)
        else:
            console.say(f"no run has ended in s3://{bucket}")
    return EXIT_OK
