"""``specdec forecast``: what a draft would gain, from answers that are logged already."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specdec import console
from specdec.commands.options import json_option
from specdec.commands.request_options import access, access_options
from specdec.errors import EXIT_OK, BadInputError, EnvironmentFault, Mistake

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from specdec.catalog.conventions import Convention
    from specdec.experiment.fields import Experiment
    from specdec.forecast.answers import Sources
    from specdec.forecast.drafts import Draft
    from specdec.forecast.forecast import Forecast
    from specdec.forecast.outlook import StepCostDraws
    from specdec.forecast.tokens import Tokenizer
    from specdec.report.forecast_page import Rented


@click.command()
@click.argument("names", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--draft",
    "drafts",
    multiple=True,
    required=True,
    metavar="DRAFT",
    help="ngram:N, shipped (a small model), a GGUF file or folder, or the address of a vLLM or llama.cpp"
    " server. May be given again.",
)
@click.option(
    "--tokenizer",
    metavar="FILE|URL",
    help="The target's tokenizer and template: a GGUF file, or the address of its vLLM or llama.cpp server."
    "  [default: the draft's, else the shipped]",
)
@click.option(
    "--experiment",
    "experiment_path",
    type=click.Path(path_type=Path),
    help="Take step arithmetic and target from this experiment, and price it.  [default: textbook]",
)
@click.option(
    "--step-cost",
    "step_costs",
    multiple=True,
    metavar="K=MS|RUN",
    help="Measured milliseconds of a step at window K, 0=MS of the plain one; or a run that measured them."
    " May be given again.",
)
@click.option(
    "--sampling",
    is_flag=True,
    help="Draft models draw their proposals as the target draws; needs logged log-probabilities.",
)
@click.option(
    "--prompts", metavar="SET|FILE", help="Prompts of a run that does not name them, or whose file has moved."
)
@click.option(
    "--budget", type=click.IntRange(min=1), default=200_000, show_default=True, help="Answer tokens to read."
)
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder of the runs.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("forecast"),
    show_default=True,
    help="Where to write.",
)
@access_options
@json_option
def command(
    names: tuple[str, ...],
    drafts: tuple[str, ...],
    tokenizer: str | None,
    experiment_path: Path | None,
    step_costs: tuple[str, ...],
    sampling: bool,
    prompts: str | None,
    budget: int,
    runs: Path,
    out: Path,
    as_json: bool,
    **given: Any,
) -> int:
    """What a draft would gain, before anything is rented: from answers that are logged already.

    Whether a greedy proposal is accepted depends on the text alone. So one pass of the draft over logged
    answers gives the tokens per step of every window exactly, with no accelerator and no target. The cost of
    a step is a published range until it is measured (--step-cost). A SOURCE is a file of logged answers
    (layouts: docs/forecast.md), or a run whose baseline answers are used.

    \b
    specdec forecast answers.jsonl --draft ngram:3 --tokenizer http://target:8000
    specdec forecast runs/20261129T180000Z-5a17ed --draft ngram:3 --draft shipped
    specdec forecast answers.jsonl --draft draft.gguf --step-cost 0=45 --step-cost 7=90
    specdec forecast answers.jsonl --draft draft.gguf --step-cost s3://my-bucket/runs/20261129T180000Z-5a17ed

    Exit codes: 0 done; 2 wrong input; 4 this machine cannot read the draft.
    """  # noqa: D301 (click reads the backspace itself as: keep these lines)
    from specdec.folders import cache_folder
    from specdec.forecast.drafts import open_draft
    from specdec.forecast.forecast import forecast
    from specdec.report import forecast_page
    from specdec.text import json_of

    costs, plain = _costs(step_costs, runs)
    experiment = _experiment(experiment_path)
    sources = _sources(names, runs, prompts)
    own = next((Path(name) for name in drafts if name.endswith(".gguf") and Path(name).is_file()), None)
    entry = _entry(given)
    with ExitStack() as opening:
        vocabulary = opening.enter_context(_tokenizer(tokenizer, own, entry))
        made: list[Draft] = []
        with console.progress("reading answers") as step:
            for name in drafts:
                draft = open_draft(
                    name,
                    cache=cache_folder(os.environ),
                    tokenizer=vocabulary,
                    samples=sampling,
                    on_progress=step.update,
                    access=entry,
                )
                opening.callback(draft.close)
                made.append(draft)
            result = forecast(
                sources,
                vocabulary,
                made,
                _convention(experiment),
                costs=costs,
                plain_ms=plain,
                budget=budget,
                on_progress=step.update,
            )
    page = forecast_page.write(result, out, _rented(experiment) if experiment else ())
    if as_json:
        import dataclasses

        console.show_json(json_of(dataclasses.asdict(result)))
    else:
        _show(result)
    console.say(f"forecast: {page}")
    return EXIT_OK


def _entry(given: Mapping[str, Any]) -> dict[str, Any]:
    if not any(given.values()):
        return {}
    allowed = access(given)
    return {"headers": allowed.headers, "tls": allowed.tls}


def _tokenizer(
    name: str | None, own: Path | None, entry: Mapping[str, Any]
) -> AbstractContextManager[Tokenizer]:
    from contextlib import closing

    from specdec.forecast.model import opened
    from specdec.forecast.served_tokenizer import ServedTokenizer

    if name is not None and name.startswith(("http://", "https://")):
        return closing(ServedTokenizer(name, **entry))
    return opened(Path(name) if name is not None else own or _shipped(), weights=False)


def _shipped() -> Path:
    from specdec.forecast.shipped import packaged

    try:
        return packaged()
    except EnvironmentFault:
        problem = "is missing, and no model is installed whose tokenizer could stand in"
        raise BadInputError(
            "command line",
            [
                Mistake(
                    "--tokenizer",
                    None,
                    problem,
                    "Name the address of the target's server, or a GGUF file of it",
                )
            ],
        ) from None


def _sources(names: tuple[str, ...], runs: Path, prompts: str | None) -> Sources:
    from specdec.forecast.answers import Sources
    from specdec.forecast.layouts import read_file
    from specdec.forecast.run_answers import read_run_answers
    from specdec.runs.find import find
    from specdec.runs.folder import read_run

    sources = Sources()
    for name in names:
        path = Path(name)
        if path.is_file():
            read_file(path, sources)
        else:
            read_run_answers(read_run(find(name, runs=runs)), sources, prompts=prompts)
    return sources


def _costs(texts: tuple[str, ...], runs: Path) -> tuple[dict[int, StepCostDraws], float | None]:
    """Cost of a step by window, and milliseconds of the plain step."""
    times: dict[int, float] = {}
    costs: dict[int, StepCostDraws] = {}
    measured: float | None = None
    for text in texts:
        window, equals, value = text.partition("=")
        if not equals and not text.isdecimal():
            found, measured = _measured(text, runs)
            costs |= found
            continue
        try:
            times[int(window)] = float(value)
        except ValueError:
            times[-1] = 0.0
        if min(times) < 0 or max(times) > 15 or min(times.values()) <= 0:
            raise _wrong_cost(
                text, "is neither a run nor a window from 0 to 15 with milliseconds", "Write 7=90"
            )
    plain = times.pop(0, measured)
    if times and plain is None:
        raise _wrong_cost(", ".join(texts), "lacks the plain step", "Add --step-cost 0=MS")
    return {**costs, **{window: value / (plain or 1.0) for window, value in times.items()}}, plain


def _measured(name: str, runs: Path) -> tuple[dict[int, StepCostDraws], float | None]:
    """The step costs of a run, with milliseconds of its plain step."""
    import numpy as np

    from specdec.analysis.measured_costs import costs_of
    from specdec.runs.find import find
    from specdec.runs.folder import read_run

    run = read_run(find(name, runs=runs))
    told = costs_of(run.manifest, run.records)
    for variant, reason in told.reasons.items():
        console.say(f"{run.folder}: no step cost of {variant}: {reason}")
    if told.plain is None:
        reasons = "; ".join(f"{variant}: {reason}" for variant, reason in told.reasons.items())
        raise _wrong_cost(
            name, f"tells no step cost: {reasons or 'no speculative variant'}", "Write 0=45 and 7=90"
        )
    costs: dict[int, StepCostDraws] = {
        one.window: np.concatenate([[one.cost], one.draws]) for one in told.costs if one.window <= 15
    }
    return costs, 1000 * told.plain


def _wrong_cost(value: str, problem: str, remedy: str) -> BadInputError:
    return BadInputError("command line", [Mistake("--step-cost", value, problem, remedy)])


def _experiment(path: Path | None) -> Experiment | None:
    from specdec.experiment.reading import load

    return None if path is None else load(path)


def _convention(experiment: Experiment | None) -> Convention:
    from specdec.catalog.conventions import TEXTBOOK
    from specdec.catalog.images import STACKS

    return TEXTBOOK if experiment is None else STACKS[experiment.serving.stack].convention


def _rented(experiment: Experiment) -> tuple[Rented, ...]:
    """Every instance that the catalogue knows with a price, as it would hold the target."""
    from specdec.catalog.instances import INSTANCES
    from specdec.catalog.prices import known_price
    from specdec.catalog.roofline import limit_step
    from specdec.pricing.predict import efficiencies
    from specdec.report.forecast_page import Rented

    model = experiment.model(experiment.serving.target)
    rentals: list[Rented] = []
    for instance in INSTANCES.values():
        price = known_price(instance.type, experiment.capacity.purchase, experiment.regions[0])
        # A fifth of the memory stays for the cache and the compiled graphs.
        needed = model.step_bytes() / (0.8 * instance.hbm_bytes_per_device)
        devices = min((size for size in instance.claim_sizes if size >= needed), default=None)
        if instance.type == experiment.capacity.instance_type:
            devices = experiment.serving.devices
        if price is None or devices is None:
            continue
        cores = instance.logical_cores(devices, instance.logical_core_sizes[0])
        limit = limit_step(
            model,
            instance,
            devices=devices,
            tensor_parallel_degree=cores,
            sequences=1,
            context=experiment.serving.max_model_len / 2,
        )
        share = price.usd_per_hour * devices / instance.devices
        seen = f"{price.purchase}, {price.source}" + (f", {price.date}" if price.date else "")
        chips = f"{devices} of {instance.devices} chips" if instance.devices > 1 else "1 chip"
        name = f"{instance.type}, {chips}"
        low, high, _ = efficiencies(instance)
        rentals.append(Rented(name, share, (limit / high, limit / low), seen))
    return tuple(rentals)


def _show(found: Forecast) -> None:
    for draft in found.drafts:
        console.show(f"{draft.draft}: {draft.mix.says}")
        for group in draft.groups:
            console.show(f"  {group.group} ({group.answers}): {group.says}")
    console.show(
        f"from {found.answers} of {found.of_answers} answers; logged token counts agree in {found.matched},"
        f" {found.unchecked} have none; the target's own tokens are known in {found.exact}"
    )
    for reason, count in found.left_out.items():
        console.show(f"left out: {count} {reason}")
    for note, count in found.notes.items():
        console.show(f"noted: {count} {note}")
