"""``specdec golden``: a server of known truth, to check a load generator against."""

from __future__ import annotations

import dataclasses
import re
import signal
import sys
from typing import TYPE_CHECKING, Any, get_args

import click

from specdec import console
from specdec.commands.options import Number
from specdec.errors import EXIT_OK, BadInputError, EnvironmentFault, Mistake
from specdec.golden.dialects import DIALECTS
from specdec.golden.settings import FAULTS
from specdec.golden.truth import Convention
from specdec.text import json_of

if TYPE_CHECKING:
    from specdec.golden.settings import Settings

USAGES = ("continuous", "final", "own", "repeated", "timings", "none")
CHUNKINGS = ("step", "token", "merged", "split", "packed")


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [default: a free one]"
)
@click.option("--ttft-ms", type=Number(0, 1e6), default=200.0, show_default=True, help="Time to first token.")
@click.option(
    "--step-ms",
    type=Number(0, 1e6),
    default=20.0,
    show_default=True,
    help="Time of each later step.",
)
@click.option(
    "--jitter",
    type=Number(0, 0.95),
    default=0.0,
    show_default=True,
    help="Share by which step times vary.",
)
@click.option(
    "--batch-ms",
    type=Number(min=0),
    default=0.0,
    show_default=True,
    help="Time that every further request in service adds to a step.",
)
@click.option(
    "--max-num-seqs", type=click.IntRange(min=1), help="Requests in service; others wait.  [default: all]"
)
@click.option(
    "--first-tokens",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Tokens of the first step.",
)
@click.option(
    "--tokens-per-step", metavar="N|LOW-HIGH", help="Tokens of later steps, equally likely.  [default: 1]"
)
@click.option(
    "--acceptance",
    type=Number(0, 1),
    help="Probability that a proposal is accepted, instead of --tokens-per-step; needs --window.",
)
@click.option("--window", type=click.IntRange(1, 1000), help="Proposals per step, with --acceptance.")
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
    type=click.IntRange(2, 1000),
    default=2,
    show_default=True,
    help="Steps per event, for --chunking merged.",
)
@click.option(
    "--usage",
    type=click.Choice(USAGES),
    default="continuous",
    show_default=True,
    help="Token counts offered to clients that ask for them.",
)
@click.option(
    "--reasoning",
    type=Number(0, 1),
    default=0.0,
    show_default=True,
    help="Share of tokens sent as reasoning.",
)
@click.option(
    "--dialect",
    type=click.Choice(list(DIALECTS)),
    help="Imitate a service, instead of --chunking, --usage and --reasoning; docs/dialects.md explains them.",
)
@click.option("--fault", type=click.Choice(list(FAULTS)), help="Fault to play; --faults explains them.")
@click.option(
    "--fault-every",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Play the fault on every N-th request.",
)
@click.option("--faults", is_flag=True, help="List the faults and quit.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=1,
    show_default=True,
    help="Fixes the tokens of all steps.",
)
@click.option("--path", metavar="/PATH", help="What stands in front of every route.  [default: nothing]")
@click.option(
    "--key",
    metavar="TEXT",
    help="Refuse requests without this key, in Authorization: Bearer or in api-key. It is no secret.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the truth as JSON, with every request.")
@click.argument("client", nargs=-1, metavar="[-- COMMAND...]")
def command(client: tuple[str, ...], port: int, faults: bool, as_json: bool, **given: Any) -> int:
    """Serve an OpenAI-compatible endpoint whose every time and token count is known.

    Given a COMMAND, runs it with {url} replaced by the base URL, then prints what the server really did, to
    compare with what the load generator says. Without one, serves until Ctrl-C or SIGTERM; GET /truth gives
    the same at any time, DELETE /truth resets it.

    \b
    specdec golden --step-ms 36 --tokens-per-step 4-8
    specdec golden --acceptance 0.8 --window 7 -- specdec bench --target {url} --repeats 1
    specdec golden --path /openai --key test-key
    """  # noqa: D301 (click reads the backspace itself as: keep these lines)
    if faults:
        console.show_table(
            [console.Column("fault"), console.Column("meaning", fold=True)],
            list(FAULTS.items()),
            heading=False,
        )
        return EXIT_OK
    import asyncio

    settings = _settings(given)
    status, truth = asyncio.run(_serve(settings, port, client))
    if as_json:
        console.show_json(json_of(truth))
    else:
        _show(settings, truth)
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
    name = given["dialect"]
    said = {
        "chunking": given["chunking"],
        "merge": given["merge"],
        "usage": given["usage"],
        "reasoning": given["reasoning"],
    }
    if name is not None:
        plain = Settings()
        for option, value in said.items():
            if value != getattr(plain, option):
                mistake = Mistake(f"--{option}", value, f"contradicts --dialect {name}", "Give one of them")
                raise BadInputError("command line", [mistake])
        base = DIALECTS[name][1]
    else:
        base = Settings(**said, engine="llamacpp" if given["usage"] == "timings" else "specdec-golden")
    return dataclasses.replace(
        base,
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
        fault=given["fault"],
        fault_every=given["fault_every"],
        seed=given["seed"],
        path=_path(given["path"]),
        key=_key(given["key"]),
    )


def _path(text: str | None) -> str:
    path = (text or "").rstrip("/")
    if path and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", path):
        mistake = Mistake("--path", text, "is not the path of a URL", "Write /openai")
        raise BadInputError("command line", [mistake])
    return path


def _key(text: str | None) -> str | None:
    if text is not None and not (text.isascii() and text.isprintable() and text.strip() == text != ""):
        mistake = Mistake("--key", text, "holds characters that no key has", "Use letters and digits")
        raise BadInputError("command line", [mistake])
    return text


def _uniform(text: str) -> Any:
    from specdec.golden.truth import Uniform

    low, dash, high = text.partition("-")
    if (
        low.isdecimal()
        and (high.isdecimal() if dash else not high)
        and 1 <= int(low) <= int(high or low) <= 1000
    ):
        return Uniform(int(low), int(high or low))
    raise BadInputError(
        "command line",
        [Mistake("--tokens-per-step", text, "is not a number from 1 to 1000, or a range", "Write 1 or 4-8")],
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
            # A script that starts it in the background has SIGINT ignored there, and ends it with SIGTERM.
            ended = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
            console.say(f"serving on {url}/v1, truth at {url}/truth; Ctrl-C ends it")
            await ended.wait()
    except asyncio.CancelledError:
        # Ctrl-C is how a server without a command is meant to end.
        pass
    finally:
        await server.stop()
    return status, server.truth()


def _show(settings: Settings, truth: dict[str, Any]) -> None:
    names = (
        ("ttft", "TTFT ms", 1000),
        ("tpot", "TPOT ms", 1000),
        ("tokens_per_step", "tokens/step", 1),
        ("e2e", "E2E ms", 1000),
    )

    def number(value: float | None, factor: int, digits: int) -> str:
        return "-" if value is None else f"{value * factor:.{digits}f}"

    rows = [
        (title, *(number(truth[kind][name], factor, 3) for kind in ("median", "mean")))
        for name, title, factor in names
    ]
    rows.append(("tokens/s", "", number(truth["output_tokens_per_second"], 1, 1)))
    heads = [console.Column("truth"), *(console.Column(head, right=True) for head in ("median", "mean"))]
    console.show_table(heads, rows)
    console.show(
        f"{truth['whole']} of {truth['requests']} requests answered completely; expected tokens per step"
        f" {settings.per_step.mean:.3f}"
    )
