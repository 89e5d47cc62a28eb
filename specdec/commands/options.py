"""Options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

from pathlib import Path

import click

experiment_option = click.option(
    "--experiment",
    "experiment_path",
    type=click.Path(path_type=Path),
    default=Path("experiment.toml"),
    show_default=True,
    help="The experiment file.",
)

region_option = click.option("--region", help="One region of the experiment.  [default: each of them]")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
