"""``specdec sampling``: do the variants of a run draw from one distribution?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from specdec import console, interrupts
from specdec.benchmark.answers import SAMPLING_PROMPT, SHORT_ANSWERS
from specdec.commands.options import Number, runs_option, target_option
from specdec.commands.request_options import changes as request_changes
from specdec.commands.request_options import request_options
from specdec.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, BadInputError, Mistake


@click.command()
@click.argument("name", metavar="[RUN]", required=False)
@runs_option
@target_option
@click.option("--temperature", type=Number(0, 2, min_open=True), help="Above 0.  [default: the run's own]")
@click.option("--prompt", default=SAMPLING_PROMPT, show_default=True, help="What is asked, again and again.")
@click.option(
    "--requests",
    type=click.IntRange(20, 100_000),
    default=SHORT_ANSWERS,
    show_default=True,
    help="Short answers of each variant.",
)
@request_options
def command(
    name: str | None,
    runs: Path,
    targets: tuple[tuple[str, str], ...],
    temperature: float | None,
    prompt: str,
    requests: int,
    **given: Any,
) -> int:
    """Do the variants of a run draw their answers from one distribution?

    Above temperature 0 texts cannot agree. Each variant is asked for many short answers to one prompt, and
    how often each piece of text begins them is compared (chi-square, its chance by shuffling). A verifier
    that samples at another temperature shows first in these beginnings. A right sampler passes in 98% of
    trials. The power to find a verifier at 0.7 times the temperature is printed. If it is low, ask for more
    answers, or ask something that can be answered in more ways. Answers are kept in sampling.jsonl, and the
    report includes the result. `specdec bench` does this by itself above temperature 0.

    \b
    specdec sampling
    specdec sampling runs/20261129T180000Z-5a17ed --temperature 1 --target baseline=http://127.0.0.1:8001

    Exit codes: 0 no difference shown; 1 the distributions differ; 2 wrong input, or a run without the
    servers; 4 no server answers; 130 interrupted.
    """  # noqa: D301 (click reads the backspace itself as: keep these lines)
    from specdec.analysis.sampled import compared_in
    from specdec.benchmark.after import draw, hottest
    from specdec.benchmark.answers import plan_of, sampling_prompt
    from specdec.runs import answers
    from specdec.runs.find import find
    from specdec.runs.folder import read_run

    folder = find(name, runs=runs)
    run = read_run(folder)
    asked = hottest(run) if temperature is None else temperature
    if not asked:
        remedy = "Ask for one above 0: --temperature 1"
        raise BadInputError("command line", [Mistake("--temperature", 0, "decodes greedily", remedy)])
    plan = plan_of(
        run,
        [sampling_prompt(prompt)],
        addresses=dict(targets),
        temperature=asked,
        repeats=requests,
        **{field: value for field, value in request_changes(given, ()).items() if value},
    )
    interrupts.end_as_ctrl_c_does()
    status = EXIT_OK
    with console.progress(f"asking for {requests} short answers of each variant") as step:
        try:
            draw(plan, folder, run.manifest.dropped, lambda done, total: step.update("answers", done, total))
        except KeyboardInterrupt:
            status = EXIT_INTERRUPTED
            step.outcome = "interrupted, what came is kept"
    tests = compared_in(run.manifest, answers.read(folder, answers.SAMPLING))
    for test in tests:
        console.show(test.says)
    return status or (EXIT_FAILED if any(test.state == "differs" for test in tests) else EXIT_OK)
