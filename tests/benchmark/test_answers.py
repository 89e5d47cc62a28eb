"""What is asked beside the measured part of a run, over HTTP: short answers above temperature 0."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from specdec.benchmark import after, answers
from specdec.cli import cli
from specdec.errors import SpecdecError
from specdec.runs.answers import SAMPLING, read
from specdec.runs.folder import Run, read_run
from tests.benchmark.sampler import sampled, serving

pytestmark = pytest.mark.slow

ENOUGH = 250


def bench(folder: Path, urls: list[str], *options: str) -> tuple[int, str, Path]:
    prompts = folder / "p.txt"
    prompts.write_text("one\ntwo\nthree\n", encoding="utf-8")
    targets = [part for url in urls for part in ("--target", url)]
    given = ["--prompts", str(prompts), "--output-tokens", "6", "--repeats", "1", "--eos", *options]
    result = CliRunner().invoke(cli, ["bench", *targets, *given, "--out", str(folder / "runs")])
    runs = list((folder / "runs").iterdir())
    return result.exit_code, result.output, runs[0]


@pytest.mark.parametrize(("share", "differs"), [(1.0, False), (0.7, True)])
def test_above_temperature_0_a_bench_compares_distributions(
    share: float, differs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "SHORT_ANSWERS", ENOUGH)
    with ExitStack() as stack:
        urls = [stack.enter_context(serving(sampled(own)))[0] for own in (1.0, share)]
        status, said, folder = bench(tmp_path, urls, "--temperature", "1")
    assert status == 0
    kept = read(folder, SAMPLING)
    assert len(kept) == 2 * ENOUGH
    assert {(line.lane, line.temperature) for line in kept} == {("sampling", 1.0)}
    assert ("draw from different distributions" in said) == differs
    report = CliRunner().invoke(cli, ["report", str(folder), "--json"])
    (test,) = json.loads(report.stdout)["sampling"]
    assert test["requests"] == [ENOUGH, ENOUGH]
    assert (test["state"] == "differs") == differs
    row = json.loads(report.stdout)["rows"][0]
    withheld = [reason["code"] for reason in row["reasons"] if reason["withholds"]]
    assert ("other distribution" in withheld) == differs
    page = (folder / "report.md").read_text(encoding="utf-8")
    assert row["temperature"] == 1.0
    assert "short answers at temperature 1" in page


def test_it_can_be_left_out_and_done_later(tmp_path: Path) -> None:
    with serving(sampled(1.0)) as (one, _), serving(sampled(1.0)) as (other, _):
        _, said, folder = bench(tmp_path, [one, other], "--temperature", "1", "--no-check-texts")
        assert "short answers" not in said
        assert read(folder, SAMPLING) == ()
        target = f"speculative={other}"
        given = ["sampling", str(folder), "--requests", "40", "--target", target, "--prompt", "Hello."]
        later = CliRunner().invoke(cli, given, standalone_mode=False)
    assert later.return_value == 0
    assert "cannot tell" in later.output
    assert len(read(folder, SAMPLING)) == 80


def plain_run(tmp_path: Path, urls: list[str]) -> Run:
    return read_run(bench(tmp_path, urls, "--temperature", "1", "--no-check-texts")[2])


def test_an_interruption_keeps_what_came_and_loses_no_run(tmp_path: Path) -> None:
    with serving(sampled(1.0)) as (one, _), serving(sampled(1.0)) as (other, _):
        run = plain_run(tmp_path, [one, other])
        plan = answers.plan_of(run, [answers.sampling_prompt()], temperature=1.0, repeats=500)

        def stop(done: int, _: int) -> None:
            if done == 20:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            after.draw(plan, run.folder, (), stop)
    assert 20 <= len(read(run.folder, SAMPLING)) < 100
    assert read_run(run.folder).manifest.status == "complete"


def test_the_seeds_of_two_variants_differ(tmp_path: Path) -> None:
    with serving(sampled(1.0)) as (one, asked), serving(sampled(1.0)) as (other, theirs):
        run = plain_run(tmp_path, [one, other])
        asked.clear()
        theirs.clear()
        plan = answers.plan_of(run, [answers.sampling_prompt()], temperature=1.0, repeats=30)
        after.draw(plan, run.folder, (), lambda _done, _total: None)
    seeds = [{body["seed"] for body in side} for side in (asked, theirs)]
    assert [len(own) for own in seeds] == [30, 30]
    assert not seeds[0] & seeds[1]


def test_a_server_that_is_gone_is_said(tmp_path: Path) -> None:
    with serving(sampled(1.0)) as (one, _):
        with serving(sampled(1.0)) as (other, _):
            run = plain_run(tmp_path, [one, other])
        plan = answers.plan_of(run, [answers.sampling_prompt()], temperature=1.0, repeats=30)
        with pytest.raises(SpecdecError, match=r"speculative at .* requests in a row failed"):
            after.draw(plan, run.folder, (), lambda _done, _total: None)


def test_a_greedy_run_has_nothing_to_sample(tmp_path: Path) -> None:
    with serving(sampled(1.0)) as (one, _), serving(sampled(1.0)) as (other, _):
        _, _, folder = bench(tmp_path, [one, other])
        later = CliRunner().invoke(cli, ["sampling", str(folder)])
    assert read(folder, SAMPLING) == ()
    assert later.exit_code != 0
