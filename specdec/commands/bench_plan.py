"""The plan of ``specdec bench``, from its targets and options."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec import console
from specdec.commands import load_options
from specdec.commands.options import prices_of
from specdec.commands.request_options import changes as request_changes
from specdec.errors import BadInputError, Mistake
from specdec.runs.place import place

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan, Target

MOST_WINDOW = 64

NAMES = ("baseline", "speculative")
"""Names of one or two targets that are given without."""

_CHANGEABLE = (
    "output_tokens",
    "concurrency",
    "repeats",
    "warmup",
    "self_check",
    "schedule",
    "arrival",
    "api",
    "temperature",
    "thinking",
    "loads",
    "point_seconds",
    "seed",
)


def named(text: str, index: int, count: int) -> tuple[str, str, str | None]:
    """Name, URL and model of a target as it was given."""
    text, mark, model = text.partition("#")
    asked = model if mark else None
    name, equals, url = text.partition("=")
    if equals and "/" not in name:
        return name, url, asked
    if count <= 2:
        return NAMES[index], text, asked
    return ("baseline" if index == 0 else f"speculative-{index}"), text, asked


def plan_of(told: list[tuple[str, str, str | None]], given: dict[str, Any]) -> Plan:
    """What the command line asks for.

    Args:
        told: name, URL and model of each target, see ``named``.
        given: the options by their parameters' names.

    Raises:
        BadInputError: an option, the experiment or a prompt is wrong.
    """
    from specdec.benchmark.client import Timeouts
    from specdec.benchmark.meeting import Share

    targets = [(name, url) for name, url, _ in told]
    if given["experiment"] is not None:
        plan = _plan_of_experiment(dict(targets), given)
    else:
        plan = _free_plan(targets, given)
    changes: dict[str, Any] = {name: given[name] for name in _CHANGEABLE if given.get(name) is not None}
    changes |= load_options.changes(given)
    if given["warmup"] is None and changes.get("concurrency") is not None:
        changes["warmup"] = changes["concurrency"]
    if given["self_check"] is None and changes.get("schedule", "alternate") != "alternate":
        changes["self_check"] = 0.0
    if given["plain_template"]:
        changes["thinking"] = None
    models = {name: model if model is not None else given["model"] for name, _, model in told}
    changes["targets"] = tuple(
        dataclasses.replace(target, model=models[target.variant]) for target in plan.targets
    )
    timeouts = plan.timeouts
    plan = dataclasses.replace(
        plan,
        **changes,
        share=Share(given["index"], given["of"], given["meet"]),
        ignore_eos=not given["eos"],
        near_ties=given["near_ties"],
        **request_changes(given, plan.targets),
        timeouts=Timeouts(
            stall=given["stall_seconds"] or timeouts.stall, total=given["request_seconds"] or timeouts.total
        ),
    )
    plan = dataclasses.replace(plan, targets=_with_windows(plan.targets, given["windows"]))
    say_of_one_server(plan)
    plan = _priced(plan, given["prices"])
    plan = _recorded(plan, given["prompts"], {name: given[name] for name in ("ttft_ms", "tpot_ms")})
    load_options.say_what_queues(plan)
    return plan.only(given["test_cases"]) if given["test_cases"] else plan


def _with_windows(targets: tuple[Target, ...], windows: tuple[str, ...]) -> tuple[Target, ...]:
    """The targets with the windows that ``--window NAME=K`` gives."""
    sizes = windows_of(windows, [target.variant for target in targets if target.role == "speculative"])
    # What the user says of a server holds whatever model it serves.
    return tuple(
        dataclasses.replace(target, window=sizes[target.variant], expected=None)
        if target.variant in sizes
        else target
        for target in targets
    )


def say_of_one_server(plan: Plan) -> None:
    """Says which targets are the same model at one address: no row of these will count."""
    names: dict[tuple[str, str | None], list[str]] = {}
    for target in plan.targets:
        names.setdefault((place(target.url), target.model), []).append(target.variant)
    for same in names.values():
        if len(same) > 1:
            console.say(
                f"{' and '.join(same)} are one server, so nothing but its noise can be shown between them;"
                " --self-check measures how far a server differs from itself"
            )


def windows_of(texts: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Windows by name, from ``NAME=K``.

    Args:
        texts: as given with ``--window``.
        names: of the speculative variants.

    Raises:
        BadInputError: no such variant, or no window.
    """
    sizes: dict[str, int] = {}
    mistakes: list[Mistake] = []
    for text in texts:
        name, _, size = text.rpartition("=")
        if name not in names:
            remedy = f"Write NAME=K with one of {', '.join(names)}" if names else "Give a second target"
            mistakes.append(Mistake("--window", text, "names no speculative variant", remedy))
        elif not (size.isdecimal() and size.isascii() and len(size) < 4 and 1 <= int(size) <= MOST_WINDOW):
            mistakes.append(
                Mistake("--window", text, f"is not a window from 1 to {MOST_WINDOW}", "Write NAME=7")
            )
        else:
            sizes[name] = int(size)
    if mistakes:
        raise BadInputError("command line", mistakes)
    return sizes


def _priced(plan: Plan, texts: tuple[str, ...]) -> Plan:
    from specdec.runs.manifest import SERVER_PRICE

    prices = prices_of(texts, [target.variant for target in plan.targets])
    if not prices:
        return plan
    alike = len(prices) == len(plan.targets) and len(set(prices.values())) == 1
    price = next(iter(prices.values())) if alike else prices
    return dataclasses.replace(plan, environment={**plan.environment, SERVER_PRICE: price})


_FITTED = ("prompts", "output_tokens", "temperature")
"""Options that change what the services of an experiment have to take."""


def _plan_of_experiment(urls: dict[str, str], given: dict[str, Any]) -> Plan:
    from specdec.benchmark.plan import Plan
    from specdec.experiment.reading import load, with_benchmark
    from specdec.prompts.sets import load as load_prompts

    path: Path = given["experiment"]
    changes = {name: given[name] for name in _FITTED if given[name] is not None}
    experiment = with_benchmark(load(path), changes) if changes else load(path)
    own = load_prompts(given["prompts"], column=given["prompt_column"]) if given["prompts"] else None
    return Plan.from_experiment(experiment, urls, base=path.parent, prompts=own)


def _free_plan(targets: list[tuple[str, str]], given: dict[str, Any]) -> Plan:
    from specdec.benchmark.plan import Plan, Target, new_run_id
    from specdec.experiment.loads import SELF_CHECK_SHARE
    from specdec.prompts.sets import load

    concurrency: int = given["concurrency"] or 4
    return Plan(
        run=new_run_id(),
        experiment="bench",
        configuration={},
        configuration_hash="",
        targets=tuple(
            Target(variant=name, url=url, role="baseline" if index == 0 else "speculative")
            for index, (name, url) in enumerate(targets)
        ),
        prompts=load(given["prompts"] or "classes", column=given["prompt_column"]),
        concurrency=concurrency,
        warmup=concurrency,
        self_check=SELF_CHECK_SHARE,
    )


def _recorded(plan: Plan, prompts: str | None, limits: dict[str, float | None]) -> Plan:
    """The plan with a configuration that says what is really done, whatever the command line changed."""
    from specdec.benchmark.plan import hash_of

    before: dict[str, Any] = plan.configuration.get("benchmark", {"prompts": "classes", "lanes": ["exact"]})
    changed: dict[str, Any] = {name: getattr(plan, name) for name in (*_CHANGEABLE, "rate")}
    changed["loads"] = list(plan.loads)
    changed |= {"stall_seconds": plan.timeouts.stall, "request_seconds": plan.timeouts.total}
    if before.get("warmup") is None and plan.warmup == plan.concurrency:
        changed["warmup"] = None
    if prompts is not None:
        changed["prompts"] = prompts
    configuration = {**plan.configuration, "benchmark": {**before, **changed}}
    objective = {name: limit for name, limit in limits.items() if limit is not None}
    if objective:
        configuration["objective"] = {**(configuration.get("objective") or {}), **objective}
    if "variants" not in configuration:
        configuration["variants"] = [
            {"name": target.variant, "url": target.address} for target in plan.targets
        ]
    return dataclasses.replace(plan, configuration=configuration, configuration_hash=hash_of(configuration))
