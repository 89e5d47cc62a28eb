"""``specdec bench``: measures any OpenAI-compatible endpoints against each other."""

from __future__ import annotations

import dataclasses
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from specdec import console, interrupts
from specdec.commands import as_given, bench_plan, resuming, text_checks
from specdec.commands.options import Number, NumberList, objective_options, out_option, price_option
from specdec.commands.request_options import changes as request_changes
from specdec.commands.request_options import request_options
from specdec.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, BadInputError, Mistake
from specdec.runs import command_line
from specdec.text import json_of, printable

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan
    from specdec.runs.folder import Run
    from specdec.runs.manifest import RunManifest

_DEFAULTS = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


@click.command()
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="[NAME=]URL[#MODEL]",
    help="Endpoint of a variant, and the model to ask it for; the first is the baseline.",
)
@click.option(
    "--resume",
    metavar="RUN",
    help="Interrupted run, by id or folder: measure only what is missing, on the same plan, into a new run"
    " beside it. --target NAME=URL says where a target is now.",
)
@click.option(
    "--experiment",
    type=click.Path(path_type=Path),
    help="Take everything not given here from this experiment; targets are named as its variants.",
)
@click.option(
    "--prompts",
    metavar="SET|FILE",
    help="Set classes, published, long or synthetic:..., or a file: docs/prompts.md.  [default: classes]",
)
@click.option(
    "--prompt-column",
    metavar="NAME",
    help="Column or field of the file that holds the prompt, if not a usual one.",
)
@click.option("--test-case", "test_cases", multiple=True, help="Only this test case; may be given again.")
@click.option("--output-tokens", type=click.IntRange(2, 1_000_000), help="Tokens per answer.  [default: 600]")
@click.option("--concurrency", type=click.IntRange(1, 10_000), help="Requests in flight.  [default: 4]")
@click.option(
    "--repeats",
    type=click.IntRange(1, 10_000),
    help="Times each prompt is sent to each variant.  [default: 2]",
)
@click.option(
    "--minutes",
    type=Number(0, 1e5, min_open=True),
    help="Send repeats until this time is over, at least one of each prompt, instead of a number of them.",
)
@click.option(
    "--warmup",
    type=click.IntRange(0, 10_000),
    help="Unmeasured requests per variant first.  [default: as many as in flight]",
)
@click.option(
    "--self-check",
    type=Number(0, 1),
    metavar="SHARE",
    help="Share of the run in which the baseline is measured against itself, to show the noise floor; 0 for"
    " none.  [default: 0.25 where targets take turns]",
)
@click.option(
    "--schedule",
    type=click.Choice(["alternate", "concurrent", "sequential"]),
    help="Take turns, load all at once, or one after the other with the first target in between."
    "  [default: alternate]",
)
@click.option(
    "--arrival",
    type=click.Choice(["closed", "poisson", "constant"]),
    help="Keep requests in flight, or send at a rate.  [default: closed]",
)
@click.option(
    "--load",
    "loads",
    type=NumberList(whole=True),
    metavar="N,N,...",
    help="Several numbers of requests in flight, one after another; the report says up to which it pays.",
)
@click.option(
    "--rate",
    "rates",
    type=NumberList(),
    metavar="R,R,...",
    help="Requests per second and variant, one or several; poisson arrival unless --arrival says otherwise.",
)
@click.option(
    "--point-seconds",
    type=Number(0.001, 1e6),
    help="Longest time in seconds that a variant gets requests at one of several loads.  [default: 3600]",
)
@click.option(
    "--index",
    type=click.IntRange(0, 9999),
    default=0,
    envvar="JOB_COMPLETION_INDEX",
    show_envvar=True,
    help="Which of several clients this is, from 0: each sends its share of the same load.",
)
@click.option(
    "--of",
    type=click.IntRange(1, 10_000),
    default=1,
    envvar="SPECDEC_CLIENTS",
    show_envvar=True,
    help="How many clients there are. They begin together, and client 0 merges their records.",
)
@click.option(
    "--meet",
    metavar="HOST:PORT",
    envvar="SPECDEC_MEET",
    show_envvar=True,
    help="Where client 0 listens for the others.",
)
@objective_options
@click.option("--api", type=click.Choice(["chat", "completions"]), help="Route to ask.  [default: chat]")
@click.option("--temperature", type=Number(0, 2), help="0 decodes greedily.  [default: 0]")
@click.option("--thinking/--no-thinking", default=None, help="Qwen3 thinking mode.  [default: --no-thinking]")
@click.option(
    "--plain-template",
    is_flag=True,
    help="Do not mention thinking mode: for servers that refuse chat_template_kwargs.",
)
@click.option(
    "--eos/--ignore-eos",
    "eos",
    default=False,
    help="Let answers end by themselves, or ask for exactly the length.  [default: --ignore-eos]",
)
@click.option(
    "--near-ties",
    is_flag=True,
    help="Ask for log-probabilities, to explain differing texts. Slows the server.",
)
@click.option(
    "--window",
    "windows",
    multiple=True,
    metavar="NAME=K",
    help="Window of a target, for specdec tune; may be given again.",
)
@price_option
@click.option("--model", help="Model to ask for; else what the server serves.")
@request_options
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Fixes order and arrivals.  [default: 1]")
@click.option("--stall-seconds", type=Number(0.001, 1e6), help="Deadline without a byte.  [default: 120]")
@click.option("--request-seconds", type=Number(0.001, 1e6), help="Deadline of a request.  [default: 1800]")
@click.option(
    "--check-texts/--no-check-texts",
    "check_texts",
    default=True,
    help="After the run: follow texts that part along the baseline, and above temperature 0 compare short"
    " answers; at most ten minutes.  [default: --check-texts]",
)
@out_option
@click.option("--json", "as_json", is_flag=True, help="Print manifest and summary as one JSON object.")
@click.pass_context
def command(
    context: click.Context,
    targets: tuple[str, ...],
    resume: str | None,
    as_json: bool,
    out: Path,
    check_texts: bool,
    **given: Any,
) -> int:
    """Measure OpenAI-compatible endpoints against each other, exactly.

    Variants take turns on the same prompts. Every request is kept with its raw times in runs/<run
    id>/records.jsonl; `specdec report runs/<run id>` compares the variants.

    \b
    specdec bench --target http://127.0.0.1:8001 --target http://127.0.0.1:8002
    specdec bench --target plain=http://a:8000 --target window-7=http://b:8000 --prompts my.jsonl --json
    specdec bench --resume runs/20261129T120000Z-abcdef
    specdec bench --target http://a:8000 --load 64,1024 --of 2 --index 0 --meet 10.0.0.5:7000
    """  # noqa: D301 (click reads the backspace itself as: keep these lines)
    from specdec.benchmark.announcement import announcement, duration
    from specdec.benchmark.course import RunEvent
    from specdec.benchmark.run import run
    from specdec.benchmark.standing import Standing
    from specdec.benchmark.summary import summarize

    interrupted = None if resume is None else resuming.interrupted_run(resume, out)
    plan = _decided(context, interrupted, targets, given)
    if interrupted is not None and context.get_parameter_source("out") in _DEFAULTS:
        out = interrupted.folder.parent
    folder = out / plan.run
    standing = Standing(plan.targets[0].variant)
    console.say(resuming.announcement(plan, interrupted) if interrupted else announcement(plan))
    interrupts.end_as_ctrl_c_does()
    stood = 0
    with console.progress(f"measuring into {folder}") as step:

        def show(event: RunEvent) -> None:
            nonlocal stood
            standing.add(event.record)
            if event.record is None and event.done < event.total:
                stood = event.done
            left, measured, missing = "", event.done - stood, event.total - stood
            if measured >= missing / 20 and 0 < measured < missing:
                spent = time.monotonic() - step.started
                left = f", about {duration(spent / measured * (missing - measured))} left"
            if plan.seconds is not None:
                left = f", until {duration(plan.seconds)} are over"
            step.update(f"{event.done}/{event.total}{left}, {event.message}{standing}")

        manifest = run(plan, folder, interrupted=interrupted, on_event=show)
        step.outcome = manifest.status
    folder = _folder(plan, manifest, out)
    summary = summarize(manifest, folder)
    if as_json:
        console.show_json(
            json_of({"folder": str(folder), "manifest": dataclasses.asdict(manifest), "summary": summary})
        )
    else:
        from specdec.report import run_table

        run_table.show(summary)
    if manifest.problem:
        console.say(f"{manifest.status}: {printable(manifest.problem)}")
    if check_texts and manifest.status == "complete" and not plan.share.index:
        text_checks.run(plan, folder)
    empty = manifest.status == "complete" and _say_what_has_nothing(summary, list(manifest.variants))
    if empty:
        return EXIT_FAILED
    _say_next(plan, manifest, folder)
    return {"complete": EXIT_OK, "failed": EXIT_FAILED, "interrupted": EXIT_INTERRUPTED}[manifest.status]


def _folder(plan: Plan, manifest: RunManifest, out: Path) -> Path:
    """Where the run lies, or this client's share of it."""
    from specdec.runs.shares import share_folder

    whole = out / manifest.run
    return share_folder(whole, plan.share.index) if plan.share.index else whole


def _say_next(plan: Plan, manifest: RunManifest, folder: Path) -> None:
    if plan.share.index:
        console.say(f"this is share {plan.share.index} of {plan.share.of}: client 0 has the whole run")
        return
    if manifest.status != "complete" and not plan.share.together:
        console.say(f"to go on with it: {command_line.resuming(plan.command, str(folder))}")
    console.say(f"next: specdec report {shlex.quote(str(folder))}")


def _decided(
    context: click.Context, interrupted: Run | None, targets: tuple[str, ...], given: dict[str, Any]
) -> Plan:
    if interrupted is None:
        plan, before = bench_plan.plan_of(_all_named(context, targets), given), ""
    else:
        plan = _resumed(context, interrupted, targets, given)
        before = command_line.of(interrupted.manifest)
    return dataclasses.replace(plan, command=as_given.line(context, plan, before))


def _resumed(
    context: click.Context, interrupted: Run, targets: tuple[str, ...], given: dict[str, Any]
) -> Plan:
    resuming.require_nothing_else(
        [name for name in context.params if context.get_parameter_source(name) not in _DEFAULTS]
    )
    unnamed = [text for text in targets if "=" not in text.partition("://")[0]]
    if unnamed:
        mistakes = [Mistake("--target", text, "has no name", "Write NAME=URL") for text in unnamed]
        raise BadInputError("command line", mistakes)
    request = request_changes(given, ())
    del request["extra_body"]
    return resuming.plan_of(
        interrupted,
        {name: url for name, url, _ in (bench_plan.named(text, 0, len(targets)) for text in targets)},
        prompts=given["prompts"],
        column=given["prompt_column"],
        **request,
    )


def _say_what_has_nothing(summary: dict[str, Any], variants: list[str]) -> bool:
    """Whether a variant has no request that succeeded; says why, and what to do."""
    from specdec.benchmark.remedies import remedy

    empty = False
    for variant in variants:
        entry: dict[str, Any] = summary["variants"].get(variant, {})
        medians: list[dict[str, Any]] = [entry.get("all", {}), *entry.get("test_cases", {}).values()]
        if not any(each.get("outcomes", {}).get("ok") for each in medians):
            empty = True
            outcome, _, error = next(iter(entry.get("errors", {})), "no request was sent: ").partition(": ")
            console.say(f"error: {variant}: no request succeeded: {outcome}: {printable(error)}")
            console.say(f"remedy: {remedy(outcome, error)}")
    return empty


def _all_named(context: click.Context, targets: tuple[str, ...]) -> list[tuple[str, str, str | None]]:
    if not targets:
        raise click.MissingParameter(ctx=context, param_hint="'--target'", param_type="option")
    return [bench_plan.named(text, index, len(targets)) for index, text in enumerate(targets)]
