"""Options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment


class Number(click.FloatRange):
    """A number within a range; NaN and infinity are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or a usage error."""
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


experiment_option = click.option(
    "--experiment",
    "experiment_path",
    type=click.Path(path_type=Path),
    default=Path("experiment.toml"),
    show_default=True,
    help="The experiment file.",
)

regions_option = click.option("--region", help="One region of the experiment.  [default: each of them]")

region_option = click.option("--region", help="Region of the experiment.  [default: its first]")


class NumberList(click.ParamType[tuple[float, ...]]):
    """Numbers above 0, separated by commas; whole ones if ``whole``."""

    name = "numbers"

    def __init__(self, *, whole: bool = False) -> None:
        self._whole = whole

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The numbers as a tuple, in the order given."""
        if isinstance(value, tuple):
            return cast("tuple[float, ...]", value)
        try:
            numbers = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or any(
            not 0 < number < 1e6 or (self._whole and number != int(number)) for number in numbers
        ):
            kind = "whole numbers, 1 or more" if self._whole else "numbers above 0"
            self.fail(f"{value!r} is not a list of {kind}, such as 1,2,4", param, ctx)
        return numbers


def objective_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--ttft-ms`` and ``--tpot-ms``: limits for goodput and capacity."""
    for name, what in (("tpot", "per output token"), ("ttft", "to the first token")):
        command = click.option(
            f"--{name}-ms",
            type=Number(0, 1e6, min_open=True),
            help=(
                f"Objective: longest time {what} in milliseconds, for 95% of requests, or the experiment's"
                " share."
            ),
        )(command)
    return command


hours_option = click.option(
    "--hours",
    type=Number(0, 1e5),
    default=8.0,
    show_default=True,
    help="How long the nodes are to run, for what it costs.",
)


def one_of(experiment: Experiment, region: str | None) -> str:
    """The region that a command is about.

    Raises:
        click.BadParameter: the experiment has no such region.
    """
    if region is not None and region not in experiment.regions:
        raise click.BadParameter(
            f"{region} is not a region of the experiment: {', '.join(experiment.regions)}",
            param_hint="--region",
        )
    return region or experiment.regions[0]


class NamedUrl(click.ParamType[tuple[str, str]]):
    """``NAME=URL``: where a variant is reached."""

    name = "named URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The pair, or a usage error."""
        variant, equals, url = str(value).partition("=")
        if not (variant and equals and url):
            self.fail(f"{value!r} is no NAME=URL.", param, ctx)
        return variant, url


target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    type=NamedUrl(),
    metavar="NAME=URL",
    help="Where a variant of the run is reached now; may be given again.  [default: the run's own]",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

runs_option = click.option(
    "--runs",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder of the runs on this machine.",
)

out_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder for the run's own folder.",
)
