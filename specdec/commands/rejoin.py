"""``specdec rejoin``: follows texts that part, to tell a near-tie from a defect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from specdec import console, interrupts
from specdec.commands.options import runs_option
from specdec.commands.request_options import access, access_options
from specdec.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, BadInputError, Mistake


@click.command()
@click.argument("name", metavar="[RUN]", required=False)
@runs_option
@click.option("--baseline", "url", metavar="URL", help="The baseline's server.  [default: the run's own]")
@click.option(
    "--scorer",
    metavar="URL",
    help="Follow both sides on this server of the same target instead: one with real log-probabilities.",
)
@click.option("--model", help="Name to ask the server for.  [default: the run's own]")
@click.option("--prompts", metavar="SET", help="Prompt set or file of the run.  [default: the run's own]")
@access_options
def command(
    name: str | None,
    runs: Path,
    url: str | None,
    scorer: str | None,
    model: str | None,
    prompts: str | None,
    **given: Any,
) -> int:
    """Do texts that part come from the same decoder? The baseline follows them, and the report includes the
    result.

    In bf16 two right decoders part at near-ties. At each different token the baseline is given the prompt and
    the other's text up to and including it, and decodes on: a right decoder joins again. What counts is how
    unlikely the other's tokens are for the baseline. If its log-probabilities are not real, the number of
    different tokens counts instead, which cannot show one wrong token in 200. Ctrl-C keeps what was followed.
    `specdec bench` does this by itself, for ten minutes at most.

    \b
    specdec rejoin
    specdec rejoin runs/20261129T180000Z-5a17ed --scorer http://127.0.0.1:8003

    Exit codes: 0 nothing differs; 1 texts differ for another reason than near-ties; 2 wrong input; 4 no
    server answers; 130 interrupted.
    """  # noqa: D301 (click reads the backspace itself as: keep these lines)
    from specdec.analysis.judge import judge
    from specdec.prompts.sets import load
    from specdec.rejoin import store
    from specdec.rejoin.api import Api
    from specdec.rejoin.follow import asked_of, follow, pending_of
    from specdec.runs.find import find
    from specdec.runs.folder import read_run

    folder = find(name, runs=runs)
    run = read_run(folder)
    pending = pending_of(run)
    if not pending:
        console.say(f"{folder}: no greedy texts part, so there is nothing to follow")
        return EXIT_OK
    own = run.manifest.variants[pending[0].baseline.variant]
    address = scorer or url or own.get("url")
    if not address:
        raise BadInputError(
            "command line",
            [Mistake("--baseline", None, "is not known from the run", "Name the server's URL")],
        )
    chosen = prompts or str(run.manifest.configuration.get("benchmark", {}).get("prompts", "classes"))
    known = {
        prompt.id: tuple((turn.role, turn.content) for turn in prompt.conversation) for prompt in load(chosen)
    }
    strange = sorted({part.variant.prompt for part in pending} - known.keys())
    if strange:
        raise BadInputError(
            chosen,
            [
                Mistake(
                    "prompts", strange[0], "is in the run but not in the set", "Name the run's own: --prompts"
                )
            ],
        )
    allowed = access(given)
    interrupts.end_as_ctrl_c_does()
    api = Api(address, headers=allowed.headers, tls=allowed.tls)
    asked = asked_of(known, model or (None if scorer else own.get("model")))
    status = EXIT_OK
    with console.progress(f"following {len(pending)} texts on {address}") as step:
        try:
            for followed in follow(
                pending,
                asked,
                api,
                scorer=scorer is not None,
                on_progress=lambda done, total: step.update("texts", done, total),
            ):
                store.append(folder, followed)
        except KeyboardInterrupt:
            status = EXIT_INTERRUPTED
            step.outcome = "interrupted; what was followed is kept"
    verdict = judge(run.manifest, run.records, rejoined=store.read(folder))
    for row in verdict.comparisons:
        if row.parity.because:
            console.show(f"{row.variant} on {row.test_case}: {row.parity.state}: {row.parity.because}")
    differs = any(row.parity.state == "differs" for row in verdict.comparisons)
    return status or (EXIT_FAILED if differs else EXIT_OK)
