"""Runs as a whole: what is written, in which order, and what an interruption leaves."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from specdec import __version__
from specdec.benchmark.course import RunEvent
from specdec.benchmark.load import arrivals
from specdec.benchmark.plan import Plan, Target, new_run_id
from specdec.benchmark.run import run
from specdec.benchmark.stream import CompletionStream
from specdec.errors import BadInputError, EnvironmentFault
from specdec.experiment.reading import parse
from specdec.golden.settings import Settings
from specdec.golden.truth import Speculation, Uniform
from specdec.prompts.sets import Prompt
from specdec.runs.manifest import RunManifest
from specdec.runs.record import read_records

from .conftest import MakePlan, Measure, Start

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FAST = Settings(ttft=0.01, step=0.002)
SPECULATIVE = replace(FAST, per_step=Speculation(0.8, 4))


def test_what_a_run_leaves(start: Start, make_plan: MakePlan, tmp_path: Path) -> None:
    _, base = start(FAST)
    _, fast = start(SPECULATIVE)
    plan = make_plan(
        {"baseline": base, "speculative": fast}, count=4, cases=2, repeats=2, warmup=1, concurrency=2
    )
    events: list[RunEvent] = []
    manifest = run(plan, tmp_path / "run", on_event=events.append)
    stored = (tmp_path / "run" / "records.jsonl").read_bytes()
    records = list(read_records(tmp_path / "run" / "records.jsonl"))
    assert RunManifest.from_json((tmp_path / "run" / "manifest.json").read_text()) == manifest
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["manifest.json", "records.jsonl"]
    assert manifest.records_sha256 == hashlib.sha256(stored).hexdigest()
    assert manifest.version == __version__
    assert (manifest.status, manifest.problem, manifest.counts) == (
        "complete",
        None,
        {"baseline": {"ok": 8}, "speculative": {"ok": 8}},
    )
    assert manifest.variants["speculative"] == {
        "url": fast,
        "role": "speculative",
        "model": "golden",
        "mode": None,
        "draft": None,
        "window": None,
        "engine": "specdec-golden",
        "max_model_len": None,
        "template": None,
    }
    assert manifest.server_counters["baseline"] is None
    counted = manifest.server_counters["speculative"]
    assert counted is not None
    # Eight answers of twelve tokens, the first of each from prefill: what steps emitted is steps and accepted
    # proposals.
    assert counted["drafts"] + counted["accepted_tokens"] == 8 * 11
    assert counted["draft_tokens"] == 4 * counted["drafts"]
    assert sum(record.warmup for record in records) == 2
    pairs = [
        {(r.prompt, r.repeat, r.block) for r in records if r.variant == name and not r.warmup}
        for name in ("baseline", "speculative")
    ]
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) == 8
    assert [event.done for event in events if event.record] == list(range(1, plan.total + 1))


def test_variants_take_turns(start: Start, make_plan: MakePlan, measure: Measure) -> None:
    _, base = start(FAST)
    _, fast = start(SPECULATIVE)
    _, records = measure(make_plan({"baseline": base, "speculative": fast}, count=8, cases=2, concurrency=4))
    spans: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for record in records:
        spans.setdefault((record.block, record.variant), []).append(
            (record.sent, record.sent + (record.closed or 0))
        )
    turns = sorted((min(a for a, _ in span), max(b for _, b in span)) for span in spans.values())
    assert len(turns) == 4
    assert all(before[1] <= after[0] for before, after in pairwise(turns))


def test_concurrent_loads_all_at_once(start: Start, make_plan: MakePlan, measure: Measure) -> None:
    _, base = start(Settings(ttft=0.1, step=0.01))
    _, fast = start(Settings(ttft=0.1, step=0.01))
    _, records = measure(
        make_plan({"baseline": base, "speculative": fast}, count=2, concurrency=2, schedule="concurrent")
    )
    assert max(record.sent for record in records) < min(
        record.sent + (record.closed or 0) for record in records
    )


@pytest.mark.parametrize("arrival", ["constant", "poisson"])
def test_open_loop_sends_on_time_whatever_comes_back(
    arrival: str, start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    _, url = start(Settings(ttft=0.3, step=0.001))
    plan = make_plan({"baseline": url}, count=10, arrival=arrival, rate=40.0, repeats=1, concurrency=1)
    manifest, records = measure(plan)
    sent = sorted(record.sent for record in records)
    expected = arrivals(10, rate=40.0, arrival=arrival, seed=plan.seed)  # pyright: ignore[reportArgumentType]
    assert max(abs((s - sent[0]) - e) for s, e in zip(sent, expected, strict=True)) < 0.05
    assert max(sent) - min(sent) < 1.0
    assert manifest.environment["load"]["latest_send_seconds"] < 0.05


def test_a_prompt_may_have_its_own_length_and_temperature(
    start: Start, make_plan: MakePlan, measure: Measure
) -> None:
    _, url = start(FAST)
    prompts = (
        Prompt(id="short", test_case="c", prompt_class="open", text="x", output_tokens=5, temperature=0.7),
        Prompt(id="plain", test_case="c", prompt_class="open", text="y"),
    )
    _, records = measure(make_plan({"baseline": url}, prompts=prompts))
    told = {
        record.prompt: (record.requested_tokens, record.output_tokens, record.temperature)
        for record in records
    }
    assert told == {"short": (5, 5, 0.7), "plain": (12, 12, 0.0)}


def test_answers_that_may_end_by_themselves(start: Start, make_plan: MakePlan, measure: Measure) -> None:
    _, url = start(replace(FAST, fault="early-eos"))
    manifest, records = measure(make_plan({"baseline": url}, count=2, ignore_eos=False))
    assert manifest.counts == {"baseline": {"ok": 2}}
    assert [(record.finish_reason, record.output_tokens, record.requested_tokens) for record in records] == [
        ("stop", 6, None)
    ] * 2


def test_a_disk_that_fills_up_is_a_fault_of_the_machine(start: Start, tmp_path: Path) -> None:
    _, url = start(FAST)
    process = _bench(
        "bench", "--target", url, "--output-tokens", "50", "--out", "runs", cwd=tmp_path, file_limit=20_000
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (4, ""), err
    assert "cannot be written: File too large" in err
    assert "Free some space" in err
    (folder,) = (tmp_path / "runs").iterdir()
    assert not (folder / "manifest.json").exists()
    assert len(list(read_records(folder / "records.jsonl"))) >= 3


def test_a_folder_that_cannot_be_made(start: Start, make_plan: MakePlan, tmp_path: Path) -> None:
    _, url = start(FAST)
    (tmp_path / "taken").write_text("")
    with pytest.raises(EnvironmentFault, match="cannot be written: Not a directory") as caught:
        run(make_plan({"baseline": url}), tmp_path / "taken" / "run")
    assert caught.value.remedy == "Free some space, or name another folder with --out"


def test_a_folder_with_a_run_is_not_written_to(start: Start, make_plan: MakePlan, tmp_path: Path) -> None:
    _, url = start(FAST)
    run(make_plan({"baseline": url}), tmp_path / "run")
    before = (tmp_path / "run" / "records.jsonl").read_bytes()
    with pytest.raises(BadInputError, match="already holds a run"):
        run(make_plan({"baseline": url}), tmp_path / "run")
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == before


def test_no_server_means_no_run(make_plan: MakePlan, tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentFault,
        match=r"baseline: no server at http://127\.0\.0\.1:9: no connection to 127\.0\.0\.1:9",
    ):
        run(make_plan({"baseline": "http://127.0.0.1:9"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_model_must_be_one_that_is_served(start: Start, make_plan: MakePlan, tmp_path: Path) -> None:
    _, url = start(FAST)
    plan = make_plan(
        {"baseline": url}, targets=(Target(variant="baseline", url=url, role="baseline", model="other"),)
    )
    with pytest.raises(BadInputError, match=r"model = 'other': is not served\. Use golden"):
        run(plan, tmp_path / "run")


def test_the_experiment_becomes_a_plan() -> None:
    experiment = parse((ROOT / "experiment.toml").read_text())
    plan = Plan.from_experiment(experiment, {"speculative": "http://s:8000", "baseline": "http://b:8000"})
    assert [(target.variant, target.role, target.window) for target in plan.targets] == [
        ("baseline", "baseline", None),
        ("speculative", "speculative", 7),
    ]
    assert (plan.output_tokens, plan.concurrency, plan.warmup, plan.thinking) == (600, 4, 4, False)
    assert plan.configuration_hash == experiment.configuration_hash()
    assert len(plan.prompts) == 32
    with pytest.raises(BadInputError, match="is not a variant of the experiment"):
        Plan.from_experiment(experiment, {"draftless": "http://b:8000"})


def test_run_ids_sort_and_differ() -> None:
    ids = {new_run_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", name) for name in ids)


def _bench(
    *arguments: str, cwd: Path, file_limit: int | None = None, in_background: bool = False
) -> subprocess.Popen[str]:
    code = "from specdec.cli import main; main()"
    if in_background:
        code = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {code}"
    if file_limit is not None:
        code = (
            f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({file_limit}, {file_limit}));"
            f" {code}"
        )
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.mark.parametrize(
    ("number", "in_background"),
    [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)],
    ids=["Ctrl-C", "a supervisor", "a supervisor, with SIGINT ignored"],
)
def test_a_run_that_is_ended_keeps_what_is_done(
    start: Start, tmp_path: Path, number: signal.Signals, in_background: bool
) -> None:
    server, url = start(Settings(ttft=0.01, step=0.02, per_step=Uniform(1, 1)))
    process = _bench(
        "bench",
        "--target",
        url,
        "--output-tokens",
        "50",
        "--warmup",
        "0",
        "--concurrency",
        "2",
        "--out",
        "runs",
        cwd=tmp_path,
        in_background=in_background,
    )
    deadline = time.monotonic() + 20
    while len(server.truths) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"to go on with it: specdec bench --resume runs/{folder.name}" in err
    manifest = RunManifest.from_json((folder / "manifest.json").read_text())
    records = list(read_records(folder / "records.jsonl"))
    assert manifest.status == "interrupted"
    assert manifest.counts["baseline"]["ok"] >= 3
    assert manifest.counts["baseline"]["cancelled"] == 2
    assert sum(manifest.counts["baseline"].values()) == len(records)
    cancelled = [record for record in records if record.outcome == "cancelled"]
    assert all(record.error == "interrupted" and record.sent > 0 for record in cancelled)
    assert "cancelled: interrupted" in out


def test_bench_prints_json_that_can_be_piped(start: Start, tmp_path: Path) -> None:
    _, base = start(replace(FAST, step=0.02))
    _, fast = start(replace(SPECULATIVE, step=0.02))
    arguments = ["--output-tokens", "20", "--repeats", "1", "--test-case", "json", "--json", "--out", "runs"]
    process = _bench("bench", "--target", base, "--target", f"window-4={fast}/v1", *arguments, cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    answer = json.loads(out)
    assert answer["manifest"]["counts"] == {"baseline": {"ok": 4}, "window-4": {"ok": 4}}
    assert answer["manifest"]["configuration"]["benchmark"]["output_tokens"] == 20
    assert len(answer["manifest"]["configuration_hash"]) == 12
    base_case = answer["summary"]["variants"]["baseline"]["test_cases"]["json"]
    assert base_case["outcomes"] == {"ok": 4}
    assert base_case["TimePerOutputToken"] == pytest.approx(0.02, rel=0.3)
    assert base_case["TokensPerStep"] == pytest.approx(1.0, abs=0.5)
    assert (tmp_path / answer["folder"] / "manifest.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--target", "http://127.0.0.1:9"], 4, "no server at http://127.0.0.1:9"),
        (["--target", "nonsense"], 2, "target baseline = 'nonsense'"),
        (["--target", "a=http://h", "--target", "a=http://i"], 2, "is named twice"),
        (
            ["--target", "http://h", "--prompts", "nosuch.jsonl"],
            2,
            "is not a shipped set, and cannot be read as a file",
        ),
        (["--target", "http://h", "--test-case", "nosuch"], 2, "is not in the prompt set"),
        (["--target", "http://h", "--arrival", "poisson"], 2, "is not a rate, and arrival is poisson"),
        (
            ["--target", "http://h", "--api-key-env", "SPECDEC_TEST_ABSENT"],
            2,
            "names no variable that is set",
        ),
        (["--target", "http://h", "--experiment", "nosuch.toml"], 2, "nosuch.toml"),
        ([], 2, "Missing option"),
    ],
)
def test_what_bench_says_when_it_cannot_start(
    arguments: list[str], code: int, words: str, tmp_path: Path
) -> None:
    process = _bench("bench", *arguments, cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert words in err
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()


def test_the_client_starts_without_heavy_packages() -> None:
    heavy = {"aiohttp", "pydantic", "rich", "boto3", "numpy", "matplotlib", "aws_cdk"}
    code = "import sys, specdec.commands.bench, specdec.benchmark.run, specdec.metrics; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not heavy & set(done.stdout.split())


def test_answers_leave_no_memory_behind() -> None:
    event = (
        b'data: {"choices":[{"delta":{"content":"'
        b' word"},"finish_reason":null}],"usage":{"completion_tokens":%d}}\n\n'
    )
    held: list[int] = []
    tracemalloc.start()
    for _ in range(40):
        stream = CompletionStream()
        for number in range(1, 501):
            stream.feed(event % number, float(number))
        assert len(stream.times) == 500
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert held[-1] - held[4] < 20_000
