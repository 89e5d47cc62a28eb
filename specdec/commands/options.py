"""Options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from specdec.errors import BadInputError, Mistake

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment


MOST_USD = 1e6
"""Dollars an hour above which a price is taken for a slip."""


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

price_option = click.option(
    "--usd-per-hour",
    "prices",
    multiple=True,
    metavar="[NAME=]USD",
    help="What a server costs per hour, for the cost of a token: of every target, or of the one named; may be"
    " given again.",
)


def prices_of(texts: tuple[str, ...], variants: Sequence[str]) -> dict[str, float]:
    """What ``--usd-per-hour`` says of each variant, US dollars an hour.

    Args:
        texts: as given; one without a name holds for every variant that is not named.
        variants: names that there are.

    Raises:
        BadInputError: no such variant, no price, or two for the same.
    """
    remedy = f"Write USD, or NAME=USD with one of {', '.join(variants)}"
    named: dict[str, float] = {}
    mistakes: list[Mistake] = []
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            usd = float(number)
        except ValueError:
            usd = 0.0
        if name and name not in variants:
            mistakes.append(Mistake("--usd-per-hour", text, "names no target", remedy))
        elif not 0 < usd <= MOST_USD:
            problem = f"is not a price above 0, at most {MOST_USD:g}"
            mistakes.append(Mistake("--usd-per-hour", text, problem, remedy))
        elif name in named:
            problem = f"is a second price of {name or 'all'}"
            mistakes.append(Mistake("--usd-per-hour", text, problem, "Give one"))
        else:
            named[name] = usd
    if mistakes:
        raise BadInputError("command line", mistakes)
    every = named.pop("", None)
    return {name: price for name in variants if (price := named.get(name, every)) is not None}


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
