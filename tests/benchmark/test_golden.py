"""The golden server against arithmetic, and its command."""

import json
import random
import signal
import subprocess
import sys
import time
import urllib.request
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest

from specdec.golden.settings import FAULTS, Settings
from specdec.golden.truth import Speculation, Truth, Uniform, steps

from .conftest import Start

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
MAIN = "from specdec.cli import main; main()"


def golden(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, "golden", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )


def test_the_plan_of_a_plain_request() -> None:
    planned = steps(4, ttft=0.2, step=0.02, first=1, per_step=Uniform(1, 1), seed=1)
    assert [(round(step.time, 3), step.tokens) for step in planned] == [
        (0.2, 1),
        (0.22, 1),
        (0.24, 1),
        (0.26, 1),
    ]


def test_the_last_step_is_cut_to_length() -> None:
    planned = steps(10, ttft=0.2, step=0.02, first=1, per_step=Uniform(4, 4), seed=1)
    assert [step.tokens for step in planned] == [1, 4, 4, 1]


def test_jitter_varies_steps_and_keeps_their_mean() -> None:
    planned = steps(20001, ttft=0.0, step=0.02, first=1, per_step=Uniform(1, 1), seed=2, jitter=0.5)
    lengths = [b.time - a.time for a, b in pairwise(planned)]
    assert 0.01 <= min(lengths) < max(lengths) <= 0.03
    assert mean(lengths) == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize(
    ("per_step", "expected", "most"),
    [
        (Uniform(4, 8), 6.0, 8),
        (Speculation(0.0, 7), 1.0, 1),
        (Speculation(1.0, 7), 8.0, 8),
        (Speculation(1.0, 7, "nxdi-fused"), 7.0, 7),
        # (1 - 0.9^8) / 0.1 and (1 - 0.9^7) / 0.1
        (Speculation(0.9, 7), 5.6953, 8),
        (Speculation(0.9, 7, "nxdi-fused"), 5.2170, 7),
    ],
)
def test_tokens_per_step_have_their_expectation(
    per_step: Uniform | Speculation, expected: float, most: int
) -> None:
    chosen = random.Random(7)
    drawn = [per_step.draw(chosen) for _ in range(20000)]
    assert per_step.mean == pytest.approx(expected, abs=1e-4)
    assert mean(drawn) == pytest.approx(expected, rel=0.02)
    assert max(drawn) == most <= per_step.drafted + 1


def test_the_truth_of_one_request() -> None:
    truth = Truth(0, 10.0, 13, writes=[(10.2, 1), (10.23, 4), (10.26, 6), (10.32, 2)])
    assert truth.ttft == pytest.approx(0.2)
    assert truth.tpot == pytest.approx(0.12 / 12)
    assert truth.tokens_per_step == pytest.approx(4)
    assert truth.e2e == pytest.approx(0.32)
    assert Truth(0, 10.0, 13).summary()["ttft_s"] is None


def test_the_server_keeps_its_schedule(start: Start) -> None:
    server, url = start(Settings(ttft=0.1, step=0.01, per_step=Uniform(2, 2)))
    body = json.dumps({"model": "golden", "stream": True, "max_tokens": 21, "messages": []}).encode()
    for _ in range(3):
        request = urllib.request.Request(
            f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.read().decode().count("data: ") == 14
    for truth in server.truths:
        assert truth.ttft == pytest.approx(0.1, abs=0.02)
        assert truth.tpot == pytest.approx(0.005, rel=0.1)
    with urllib.request.urlopen(f"{url}/truth") as answer:
        told = json.load(answer)
    assert (told["requests"], told["whole"], told["median"]["tokens_per_step"]) == (3, 3, 2)
    urllib.request.urlopen(urllib.request.Request(f"{url}/truth", method="DELETE")).close()
    assert server.truths == []


def test_a_client_that_does_not_stream_is_answered_too(start: Start) -> None:
    _, url = start(Settings(ttft=0.01, step=0.001))
    body = json.dumps({"max_tokens": 5, "prompt": "x"}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/completions", body)) as answer:
        told = json.load(answer)
    assert told["usage"]["completion_tokens"] == 5
    assert len(told["choices"][0]["text"].split()) == 5


def test_counts_are_offered_only_to_those_who_ask(start: Start) -> None:
    _, url = start(Settings(ttft=0.01, step=0.001))

    def ask(options: dict[str, bool]) -> int:
        body = json.dumps(
            {"stream": True, "max_tokens": 5, "messages": [], "stream_options": options}
        ).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/chat/completions", body)) as answer:
            return answer.read().decode().count("completion_tokens")

    assert ask({}) == 0
    assert ask({"include_usage": True}) == 1
    assert ask({"include_usage": True, "continuous_usage_stats": True}) == 8


def test_a_command_is_run_against_it_and_the_truth_told(tmp_path: Path) -> None:
    bench = [
        "bench",
        "--target",
        "{url}",
        "--output-tokens",
        "30",
        "--repeats",
        "1",
        "--warmup",
        "0",
        "--test-case",
        "json",
    ]
    client = [sys.executable, "-c", MAIN, *bench, "--out", str(tmp_path)]
    done = golden("--ttft-ms", "20", "--step-ms", "4", "--tokens-per-step", "2-4", "--json", "--", *client)
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout)
    assert (truth["requests"], truth["whole"]) == (4, 4)
    assert truth["median"]["ttft"] == pytest.approx(0.02, abs=0.02)
    assert 2 <= truth["mean"]["tokens_per_step"] <= 4
    assert "json" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "a script"])
def test_who_ends_it_is_told_the_truth(number: signal.Signals) -> None:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "golden"], stdout=pipe, stderr=pipe, text=True, cwd=ROOT
    )
    assert process.stderr is not None
    assert "serving on http://127.0.0.1:" in process.stderr.readline()
    time.sleep(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert "0 of 0 requests answered completely" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--window", "7"), 2, "--acceptance: is missing"),
        (("--acceptance", "0.5"), 2, "--window: is missing"),
        (("--acceptance", "0.5", "--window", "7", "--tokens-per-step", "3"), 2, "contradicts --acceptance"),
        (("--tokens-per-step", "4-2"), 2, "is not a number from 1 to 1000, or a range"),
        (("--tokens-per-step", "0"), 2, "is not a number from 1 to 1000, or a range"),
        (("--fault", "nosuch"), 2, "nosuch"),
        (("--path", "openai"), 2, "Write /openai"),
        (("--key", " "), 2, "characters that no key has"),
        (("--", "no-such-program-here"), 4, "cannot run 'no-such-program-here'"),
    ],
)
def test_what_it_says_when_it_cannot_start(arguments: tuple[str, ...], code: int, words: str) -> None:
    done = golden(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken(start: Start) -> None:
    _, url = start(Settings())
    done = golden("--port", url.rpartition(":")[2])
    assert done.returncode == 4
    assert "remedy: Choose another port" in done.stderr


def test_faults_are_listed_with_their_meaning() -> None:
    done = golden("--faults")
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(FAULTS)
