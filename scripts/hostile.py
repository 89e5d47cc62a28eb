"""Tries hostile inputs on ``specdec``: prompt files, servers, command lines, stored runs and experiments.

    uv run python scripts/hostile.py [COUNT] [SEED]

Every try is made from its seed alone, so that one that fails can be made again. After each: no traceback, an
exit code that the input can have, no key in what was printed or stored, no control character on the terminal,
and JSON that is JSON. The tests make a few of them.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.hostile_command import Done, specdec
from scripts.hostile_server import Request, Server, answer, chunk, event, http, serving, streamed

ROOT = Path(__file__).parents[1]
KEY = "sk-0f9e8d7c6b5a-secret"
WORDS = (
    *(
        "",
        " ",
        "x",
        "\0",
        "\x1b[2J\x1b[31m",
        "a\r\nb: c",
        "\ud800",
        "\u202e",
        "\ufeff",
        "💡",
        "日本語",
        "'",
        '"',
        "\\",
    ),
    *(
        "{",
        "[",
        "}",
        "null",
        "NaN",
        "-Infinity",
        "1e999",
        "../../etc/passwd",
        "%s%n",
        "<script>",
        "a" * 5000,
    ),
)
NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1e999",
    "9" * 400,
    "1e-400",
    "x",
    "",
    "0x10",
    "٣",
    "1_0",
    "1,5",
    "-0.0",
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1e308,
        10**30,
        float("nan"),
        float("inf"),
        float("-inf"),
        [],
        {},
        [[]],
        {"a": {}},
    ),
    *WORDS,
)
RUN = ("--repeats", "1", "--warmup", "0", "--output-tokens", "4", "--api-key-env", "HOSTILE_KEY")


@dataclass(frozen=True, slots=True)
class Try:
    """One hostile input, as it went.

    Attributes:
        kind: what was hostile.
        seed: makes it again.
        done: what the command left.
        faults: what is wrong about that; empty if nothing.
    """

    kind: str
    seed: int
    done: Done
    faults: list[str]


def attempt(seed: int) -> Try:
    """Makes one hostile input, gives it to a command, and looks at what that leaves."""
    chance = random.Random(seed)
    kinds = list(KINDS)
    kind = kinds[seed % len(kinds)]
    with tempfile.TemporaryDirectory() as name, serving() as server:
        folder = Path(name)
        done = KINDS[kind](chance, folder, server)
        return Try(kind, seed, done, _faults(done, folder))


def _faults(done: Done, folder: Path) -> list[str]:
    faults: list[str] = []
    if "Traceback" in done.stderr:
        faults.append("a traceback")
    if done.returncode not in (0, 1, 2, 4):
        faults.append(f"exit code {done.returncode}")
    if done.returncode and not done.stderr.strip():
        faults.append("no word about a failure")
    printed = done.stdout + done.stderr
    if re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", printed):
        faults.append("a control character on the terminal")
    if KEY in printed:
        faults.append("the key on the terminal")
    for path in folder.rglob("*"):
        if path.is_file() and "input" not in path.name:
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            if KEY in text:
                faults.append(f"the key in {path.name}")
            if path.suffix == ".json" and "broken" not in str(path):
                _check_json(path.name, text, faults)
    return faults


def _check_json(name: str, text: str, faults: list[str]) -> None:
    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        faults.append(f"{name} is no JSON")


def _bench(server: Server, folder: Path, *arguments: str) -> Done:
    targets = ("--target", f"baseline={server.url}/a", "--target", f"speculative={server.url}/b")
    return specdec("bench", *targets, *RUN, *arguments, cwd=folder, HOSTILE_KEY=KEY)


def _expect(done: Done, codes: tuple[int, ...]) -> Done:
    if done.returncode in codes:
        return done
    return Done(
        done.returncode, done.stdout, f"{done.stderr}\nTraceback: {done.returncode} is not of {codes}"
    )


def _prompts(chance: random.Random, folder: Path, server: Server) -> Done:
    suffix = chance.choice(
        (".txt", ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".JSON", "", ".md", ".parquet")
    )
    path = folder / f"input{suffix}"
    path.write_bytes(_file(chance))
    column = ("--prompt-column", chance.choice(WORDS[2:]).replace("\0", "")) if chance.random() < 0.2 else ()
    done = _expect(_bench(server, folder, "--prompts", path.name, *column), (0, 2))
    if done.returncode == 2 and server.requests:
        return _expect(done, ())
    sent = [message["content"] for request in server.requests for message in request.body["messages"]]
    return _expect(done, ()) if any("\ufeff" in text for text in sent) else done


def _file(chance: random.Random) -> bytes:
    shapes: tuple[Callable[[], Any], ...] = (
        lambda: {
            "prompt": chance.choice(WORDS),
            chance.choice(("id", "test_case", "class", "x")): chance.choice(VALUES),
        },
        lambda: {
            chance.choice(("prompt", "text", "max_tokens", "temperature", "turns")): chance.choice(VALUES)
        },
        lambda: {
            "conversations": [{"from": chance.choice(("human", "gpt", "x")), "value": chance.choice(VALUES)}]
        },
        lambda: {
            "messages": [
                {"role": "user", "content": chance.choice(VALUES)} for _ in range(chance.randint(0, 3))
            ]
        },
        lambda: {
            "custom_id": chance.choice(VALUES),
            "body": {"messages": chance.choice(VALUES), "stop": "x"},
        },
        lambda: chance.choice(VALUES),
    )
    entries = [chance.choice(shapes)() for _ in range(chance.randint(1, 3))]
    match chance.randrange(5):
        case 0:
            text = json.dumps(entries, indent=chance.choice((None, 2)))
        case 1:
            text = "\n".join(json.dumps(entry) for entry in entries)
        case 2:
            text = "prompt,class\n" + "\n".join(
                f"{chance.choice(WORDS)},{chance.choice(WORDS)}" for _ in range(5)
            )
        case 3:
            text = chance.choice(("\n", "\r\n", "\r")).join(
                chance.choice(WORDS) for _ in range(chance.randint(0, 9))
            )
        case _:
            return chance.randbytes(chance.randint(0, 300))
    content = text.encode(chance.choice(("utf-8", "utf-8-sig", "utf-16")), errors="surrogatepass")
    return content[: chance.randint(0, len(content))] if chance.random() < 0.3 else content


def _servers(chance: random.Random, folder: Path, server: Server) -> Done:
    (folder / "input.txt").write_text("one\ntwo\n")

    def respond(request: Request) -> bytes:
        return (
            _damaged(chance, answer(request.body))
            if chance.random() < 0.8
            else streamed(answer(request.body))
        )

    server.respond = respond
    if chance.random() < 0.2:
        server.models = _odd(chance)
    quick = ("--stall-seconds", "0.5", "--request-seconds", "2", "--concurrency", "2")
    done = _expect(_bench(server, folder, "--prompts", "input.txt", *quick), (0, 1, 2, 4))
    runs = [path for path in folder.glob("runs/*") if path.is_dir()]
    if not runs:
        return _expect(done, (2, 4))
    if not (runs[0] / "manifest.json").exists():
        return _expect(done, ())
    report = _expect(specdec("report", cwd=folder), (0, 1))
    agree = (done.returncode == 0) == (report.returncode == 0)
    both = Done(done.returncode, done.stdout + report.stdout, done.stderr + report.stderr)
    return both if agree else _expect(both, ())


def _damaged(chance: random.Random, events: list[bytes]) -> bytes:
    odd: dict[str, Any] = chunk(chance.choice((*WORDS, KEY)), 2)
    match chance.randrange(8):
        case 0:
            odd[chance.choice(("choices", "usage", "error", "id", "metrics"))] = chance.choice(VALUES)
        case 1:
            odd["choices"][0][chance.choice(("delta", "finish_reason", "index", "logprobs"))] = chance.choice(
                VALUES
            )
        case 2:
            odd["choices"][0]["delta"][chance.choice(("content", "reasoning", "role"))] = chance.choice(
                VALUES
            )
        case 3:
            odd["usage"][chance.choice(("completion_tokens", "prompt_tokens", "total_tokens"))] = (
                chance.choice(VALUES)
            )
        case 4:
            odd = {"error": {"message": chance.choice((*WORDS, KEY)), "code": chance.choice(VALUES)}}
        case 5:
            return _odd(chance)
        case 6:
            deep = b"[" * 50_000
            events = [event(chance.choice((deep, chance.choice(WORDS).encode(errors="replace")))), *events]
        case _:
            events = [chance.randbytes(50), *events]
    events.insert(chance.randrange(len(events)), event(odd))
    return streamed(events)


def _odd(chance: random.Random) -> bytes:
    body = chance.choice(
        (b"", b"{}", b"[]", b"null", b"<html>", KEY.encode(), json.dumps(chance.choice(VALUES)).encode())
    )
    status = chance.choice(
        ("200 OK", "204 No", "301 Moved", "400 Bad", "401 No", "404 No", "429 Slow", "500 Oops", "999 X")
    )
    more = chance.choice(
        ("", f"Location: http://x/?key={KEY}\r\n", "X: \x1b[2J\r\n", "Transfer-Encoding: chunked\r\n")
    )
    response = http(
        body, status=status, more=more, kind=chance.choice(("text/html", "application/json", "\x1b[1m"))
    )
    return chance.choice(
        (response, response[: len(response) // 2], chance.randbytes(60), b"", b"HTTP/1.1 200")
    )


def _command_lines(chance: random.Random, folder: Path, server: Server) -> Done:
    (folder / "input.txt").write_text("one\n")
    word = chance.choice(WORDS).replace("\0", "")
    number = chance.choice(NUMBERS)
    lines: tuple[tuple[str, ...], ...] = (
        ("bench", "--target", f"{word}={server.url}", "--prompts", "input.txt", *RUN),
        ("bench", "--target", f"http://u:{KEY}@{word}:1"),
        ("bench", "--target", f"{server.url}?key={KEY}&x={word}"),
        ("bench", "--target", server.url, "--api-key-env", KEY),
        ("bench", "--target", server.url, "--prompts", word or "nothing"),
        ("bench", "--target", server.url, "--model", word or "no\nmodel", "--prompts", "input.txt", *RUN),
        *(
            ("bench", "--target", server.url, option, number)
            for option in (
                "--rate",
                "--temperature",
                "--stall-seconds",
                "--concurrency",
                "--seed",
                "--load",
                "--repeats",
            )
        ),
        ("bench", "--target", server.url, "--window", f"{word}={number}"),
        ("estimate", "--hours", number),
        ("golden", "--step-ms", number, "--faults", "--jitter", number),
        ("golden", "--tokens-per-step", number, "--", "true"),
        ("report", word or "x"),
        ("report", "--stack", word or "x")
        if word.startswith(("\x1b", "a\r"))
        else ("report", word or "y", "z"),
        ("tune", "--sweep", number),
        ("stacks", word),
        (word,),
    )
    line = chance.choice(lines)
    environment = {"HOSTILE_KEY": KEY, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}
    done = specdec(*(part.replace("\ud800", "\udc80") for part in line), cwd=folder, **environment)
    if KEY in " ".join(line) and done.returncode == 0:
        return _expect(done, (2,))
    return done


def _runs(chance: random.Random, folder: Path, server: Server) -> Done:
    (folder / "input.txt").write_text("one\ntwo\n")
    _bench(server, folder, "--prompts", "input.txt")
    (run,) = folder.glob("runs/*")
    broken = run.rename(run.with_name("broken"))
    path = broken / chance.choice(("records.jsonl", "manifest.json"))
    content = path.read_bytes()
    match chance.randrange(5):
        case 0:
            path.write_bytes(content[: chance.randrange(len(content))])
        case 1:
            path.write_bytes(
                bytes(byte if chance.random() > 0.01 else chance.randrange(256) for byte in content)
            )
        case 2:
            path.unlink()
        case _:
            lines = content.decode().splitlines() if path.suffix == ".jsonl" else [content.decode()]
            index = chance.randrange(len(lines))
            raw: dict[str, Any] = json.loads(lines[index])
            raw[chance.choice((*raw, "new"))] = chance.choice(VALUES)
            lines[index] = json.dumps(raw)
            path.write_bytes(("\n".join(lines) + "\n").encode(errors="surrogatepass"))
    command = chance.choice((("report",), ("report", "--unfinished"), ("tune",), ("report", "--json")))
    return _expect(specdec(*command, str(broken.relative_to(folder)), cwd=folder), (0, 1, 2))


def _experiments(chance: random.Random, folder: Path, server: Server) -> Done:
    lines = (ROOT / "experiment.toml").read_text(encoding="utf-8").splitlines()
    fields = [index for index, line in enumerate(lines) if "=" in line and not line.startswith("#")]
    for _ in range(chance.randint(1, 3)):
        index = chance.choice(fields)
        name = lines[index].partition("=")[0]
        value = chance.choice(
            ("nan", "inf", "-inf", "-1", "7", "0.5", "[]", "{}", "true", "", json.dumps(chance.choice(WORDS)))
        )
        broken = (f"{lines[index]}\n{lines[index]}", f"[{name}]", name)
        lines[index] = chance.choice(broken) if chance.random() < 0.1 else f"{name}= {value}"
    (folder / "input.toml").write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    command = chance.choice(
        (("estimate",), ("bench", "--target", f"baseline={server.url}", *RUN, "--prompts", "published"))
    )
    return _expect(specdec(*command, "--experiment", "input.toml", cwd=folder, HOSTILE_KEY=KEY), (0, 2))


KINDS: dict[str, Callable[[random.Random, Path, Server], Done]] = {
    "prompt file": _prompts,
    "server": _servers,
    "command line": _command_lines,
    "stored run": _runs,
    "experiment": _experiments,
}


def main() -> None:
    """Makes the tries and shows those that went wrong."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 900
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    codes: Counter[tuple[str, int]] = Counter()
    wrong = 0
    for number in range(seed, seed + count):
        made = attempt(number)
        codes[made.kind, made.done.returncode] += 1
        if made.faults:
            wrong += 1
            print(
                f"seed {made.seed}, {made.kind}: {'; '.join(made.faults)}\n{made.done.stderr[-1500:]}",
                flush=True,
            )
    for (kind, code), times in sorted(codes.items()):
        print(f"{kind:14} exit {code}: {times}")
    print(f"{count} tries, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
