"""``specdec golden``: a server of known truth, to check a load generator against."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, get_args

import click

from specdec import console
from specdec.errors import EXIT_OK, BadInputError, EnvironmentFault, Mistake
from specdec.golden.settings import FAULTS
from specdec.golden.truth import Convention

if TYPE_CHECKING:
    from specdec.golden.settings import Settings

CHUNKINGS = ("step", "token", "merged", "split", "packed")


@click.command(short_help="Serve an endpoint of known timing, to check load generators with.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [default: a free one]"
)
@click.option(
    "--ttft-ms", type=click.FloatRange(min=0), default=200.0, show_default=True, help="Time to first token."
)
@click.option(
    "--step-ms",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    help="Time of each step after it.",
)
@click.option(
    "--jitter",
    type=click.FloatRange(0, 0.95),
    default=0.0,
    show_default=True,
    help="Share by which steps vary.",
)
@click.option(
    "--batch-ms",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Time that every further request in service adds to a step.",
)
@click.option(
    "--max-num-seqs", type=click.IntRange(min=1), help="Requests in service; others wait.  [default: all]"
)
@click.option(
    "--first-tokens",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Tokens of the first step.",
)
@click.option(
    "--tokens-per-step", metavar="N|LOW-HIGH", help="Tokens of later steps, equally likely.  [default: 1]"
)
@click.option(
    "--acceptance",
    type=click.FloatRange(0, 1),
    help="Instead: probability that a proposal is accepted, with --window.",
)
@click.option("--window", type=click.IntRange(min=1), help="Proposals per step, with --acceptance.")
@click.option(
    "--convention",
    type=click.Choice(get_args(Convention)),
    default="textbook",
    show_default=True,
    help="A window of k yields up to k + 1 tokens, or up to k.",
)
@click.option(
    "--chunking",
    type=click.Choice(CHUNKINGS),
    default="step",
    show_default=True,
    help="How tokens become events and writes.",
)
@click.option(
    "--merge",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    help="Steps per event, for --chunking merged.",
)
@click.option(
    "--usage",
    type=click.Choice(["continuous", "final", "timings", "none"]),
    default="continuous",
    show_default=True,
    help="Token counts offered to clients that ask for them.",
)
@click.option(
    "--reasoning",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Share of tokens sent as reasoning.",
)
@click.option("--fault", type=click.Choice(list(FAULTS)), help="Fault to play; --faults explains them.")
@click.option(
    "--fault-every",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="On every so many-th request.",
)
@click.option("--faults", is_flag=True, help="List the faults and quit.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Fixes the tokens of all steps."
)
@click.option("--json", "as_json", is_flag=True, help="Print the truth as JSON, with every request.")
@click.argument("client", nargs=-1, metavar="[-- COMMAND...]")
def command(client: tuple[str, ...], port: int, faults: bool, as_json: bool, **given: Any) -> int:
    """Serve an OpenAI-compatible endpoint whose every time and token count is known.

    Given a COMMAND, runs it with {url} replaced by the base URL, then prints what the server really did, to
    compare with what the load generator says. Without one, serves until Ctrl-C; GET /truth gives the same at
    any time, DELETE /truth resets it.

    \b
    specdec golden --step-ms 36 --tokens-per-step 4-8
    specdec golden --acceptance 0.8 --window 7 -- specdec bench --target {url} --repeats 1
    """  # noqa: D301 (click reads the backspace itself as: keep these lines)
    if faults:
        for name, meaning in FAULTS.items():
            click.echo(f"{name:12} {meaning}")
        return EXIT_OK
    import asyncio

    settings = _settings(given)
    status, truth = asyncio.run(_serve(settings, port, client))
    click.echo(json.dumps(truth) if as_json else _table(settings, truth))
    return status


def _settings(given: dict[str, Any]) -> Settings:
    from specdec.golden.settings import Settings
    from specdec.golden.truth import Speculation

    window, acceptance, tokens = given["window"], given["acceptance"], given["tokens_per_step"]
    if (acceptance is None) != (window is None):
        missing = "--window" if window is None else "--acceptance"
        raise BadInputError(
            "command line", [Mistake(missing, None, "is missing", "Give --acceptance and --window together")]
        )
    if acceptance is not None and tokens is not None:
        mistake = Mistake("--tokens-per-step", tokens, "contradicts --acceptance", "Give one of them")
        raise BadInputError("command line", [mistake])
    return Settings(
        ttft=given["ttft_ms"] / 1000,
        step=given["step_ms"] / 1000,
        jitter=given["jitter"],
        batch_step=given["batch_ms"] / 1000,
        max_num_seqs=given["max_num_seqs"],
        first_tokens=given["first_tokens"],
        per_step=(
            _uniform(tokens or "1")
            if acceptance is None
            else Speculation(acceptance, window, given["convention"])
        ),
        chunking=given["chunking"],
        merge=given["merge"],
        usage=given["usage"],
        reasoning=given["reasoning"],
        fault=given["fault"],
        fault_every=given["fault_every"],
        seed=given["seed"],
        engine="llamacpp" if given["usage"] == "timings" else "specdec-golden",
    )


def _uniform(text: str) -> Any:
    from specdec.golden.truth import Uniform

    low, dash, high = text.partition("-")
    if low.isdigit() and (high.isdigit() if dash else not high) and 1 <= int(low) <= int(high or low):
        return Uniform(int(low), int(high or low))
    raise BadInputError(
        "command line",
        [Mistake("--tokens-per-step", text, "is not a number of 1 or more, or a range", "Write 1 or 4-8")],
    )


async def _serve(settings: Settings, port: int, client: tuple[str, ...]) -> tuple[int, dict[str, Any]]:
    import asyncio

    from specdec.golden.server import GoldenServer

    server = GoldenServer(settings)
    try:
        url = await server.start(port)
    except OSError as error:
        raise EnvironmentFault(
            f"--port = {port}: {error.strerror or error}", remedy="Choose another port, or leave it out"
        ) from None
    status = EXIT_OK
    try:
        if client:
            words = [word.replace("{url}", url) for word in client]
            try:
                process = await asyncio.create_subprocess_exec(*words, stdout=sys.stderr)
            except OSError as error:
                raise EnvironmentFault(
                    f"cannot run {words[0]!r}: {error.strerror or error}", remedy="Name a program on PATH"
                ) from None
            status = await process.wait()
        else:
            console.say(f"serving on {url}/v1, truth at {url}/truth; Ctrl-C ends it")
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        # Ctrl-C is how a server without a command is meant to end.
        pass
    finally:
        await server.stop()
    return status, server.truth()


def _table(settings: Settings, truth: dict[str, Any]) -> str:
    names = (
        ("ttft", "TTFT ms", 1000),
        ("tpot", "TPOT ms", 1000),
        ("tokens_per_step", "tokens/step", 1),
        ("e2e", "E2E ms", 1000),
    )
    lines = [f"{'truth':14}{'median':>12}{'mean':>12}"]
    for name, title, factor in names:
        values = [truth[kind][name] for kind in ("median", "mean")]
        lines.append(
            f"{title:14}"
            + "".join(f"{'-' if value is None else format(value * factor, '.3f'):>12}" for value in values)
        )
    rate = truth["output_tokens_per_second"]
    lines.append(f"{'tokens/s':14}{'':12}{'-' if rate is None else format(rate, '.1f'):>12}")
    lines.append(
        f"{truth['whole']} of {truth['requests']} requests answered whole; expected tokens per step"
        f" {settings.per_step.mean:.3f}"
    )
    return "\n".join(lines)
