"""``specdec quality``: do the variants of a run answer tasks rightly?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from specdec import console, interrupts
from specdec.commands.options import runs_option, target_option
from specdec.commands.request_options import changes as request_changes
from specdec.commands.request_options import request_options
from specdec.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from specdec.quality import lm_eval


@click.command()
@click.argument("name", metavar="[RUN]", required=False)
@runs_option
@target_option
@click.option(
    "--lm-eval",
    "gsm8k",
    is_flag=True,
    help=f"Run gsm8k by lm-eval {lm_eval.VERSION} instead, as the published sample does; install it first.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=lm_eval.LIMIT,
    show_default=True,
    help="Questions of gsm8k.",
)
@request_options
def command(
    name: str | None,
    runs: Path,
    targets: tuple[tuple[str, str], ...],
    gsm8k: bool,
    limit: int,
    **given: Any,
) -> int:
    """Do the variants of a run answer tasks rightly as often as its baseline?

    Asks each for 60 tasks with answers that are checked exactly: arithmetic in words, extraction into JSON,
    ordering, counting. The difference is tested by pairs (McNemar), and the largest loss that remains
    possible is stated: 60 tasks without a difference exclude a loss of more than 6 points. Answers are kept
    in quality.jsonl, and the report includes the result. With --lm-eval the files are kept in lm-eval/.

    \b
    specdec quality
    specdec quality runs/20261129T180000Z-5a17ed --target baseline=http://127.0.0.1:8001

    Exit codes: 0 no loss shown; 1 a variant answers worse; 2 wrong input; 4 no server answers, or lm-eval is
    missing or fails; 130 interrupted.
    """  # noqa: D301 (click reads the backspace itself as: keep these lines)
    from specdec.benchmark import answers as asking
    from specdec.quality.tasks import ANSWER_TOKENS, tasks
    from specdec.report.files import quality_of
    from specdec.runs.answers import QUALITY
    from specdec.runs.find import find
    from specdec.runs.folder import read_run

    if gsm8k:
        lm_eval.require_installed()
    folder = find(name, runs=runs)
    run = read_run(folder)
    plan = asking.plan_of(
        run,
        [task.asked() for task in tasks()],
        addresses=dict(targets),
        repeats=1,
        output_tokens=ANSWER_TOKENS,
        temperature=max((record.temperature for record in run.records), default=0.0),
        **{field: value for field, value in request_changes(given, ()).items() if value},
    )
    interrupts.end_as_ctrl_c_does()
    status = EXIT_OK
    what = "gsm8k" if gsm8k else f"{len(plan.prompts)} tasks"
    with console.progress(f"asking each variant {what}") as step:
        try:
            if gsm8k:
                for target in plan.targets:
                    step.update(target.variant)
                    lm_eval.evaluate(
                        target.model or "",
                        target.url,
                        folder / lm_eval.FOLDER / target.variant,
                        {**os.environ, "OPENAI_API_KEY": os.environ.get(given["api_key_env"] or "", "none")},
                        limit=limit,
                        concurrency=plan.concurrency,
                    )
            else:
                asking.ask(
                    plan,
                    asking.repeated(plan),
                    folder / QUALITY,
                    lane="quality",
                    dropped=run.manifest.dropped,
                    on_progress=lambda done, total: step.update("answers", done, total),
                )
        except KeyboardInterrupt:
            status = EXIT_INTERRUPTED
            step.outcome = "interrupted, what came is kept"
    results = quality_of(folder, run.manifest)
    for result in results:
        console.show(result.says)
    return status or (EXIT_FAILED if any(result.state == "worse" for result in results) else EXIT_OK)
