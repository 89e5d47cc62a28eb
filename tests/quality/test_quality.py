"""Tasks with exact answers: what counts as right, what a difference in them shows, and the command."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from math import comb
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from specdec.analysis.quality import loss_interval, mcnemar, scored
from specdec.cli import cli
from specdec.quality import lm_eval
from specdec.quality.tasks import Task, tasks
from specdec.runs.answers import QUALITY, read
from tests.analysis.simulate import manifest
from tests.benchmark.sampler import serving
from tests.benchmark.test_answers import bench

KNOWN = {task.prompt: task for task in tasks()}
BOTH = manifest({"baseline": {}, "fast": {"window": 7, "draft": "d"}})


def always(version: str) -> Callable[[str], str]:
    def of(_: str) -> str:
        return version

    return of


def said(task: Task) -> str:
    if isinstance(task.answer, dict):
        return f"Here it is:\n```json\n{json.dumps(task.answer)}\n```"
    return f"Let me see.\n**Answer:** {task.answer}."


def test_there_are_sixty_of_four_kinds() -> None:
    kinds = [task.kind for task in tasks()]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(
        ["arithmetic", "extraction", "ordering", "counting"], 15
    )
    assert len({task.id for task in tasks()}) == len(KNOWN) == 60


@pytest.mark.parametrize("task", tasks(), ids=lambda task: task.id)
def test_its_own_answer_is_right_and_no_other_is(task: Task) -> None:
    assert task.right(said(task))
    assert not task.right("I do not know.")
    others = [other for other in tasks() if other.answer != task.answer]
    assert not any(task.right(said(other)) for other in others)


@pytest.mark.parametrize(
    ("answer", "text", "right"),
    [
        ("14", "Answer: 14", True),
        ("14", "Answer: 12\nNo. answer : 14 rolls", True),
        ("14", "Answer: 14\nAnswer: 15", False),
        ("14", "There are 14.", False),
        ("14", "Answer: 140", False),
        ("14", "<think>Answer: 14</think>Answer: 15", False),
        ("1401", "Answer: 1,401", True),
        ("a, b", "Answer: A,b.", True),
        ("a, b", "Answer: b, a", False),
        ({"n": 3}, 'so {"n": 3}', True),
        ({"n": 3}, '{"n": "3"}', False),
        ({"n": 3}, '{"n": 3, "m": 1}', False),
        ({"n": 3}, "{n: 3}", False),
    ],
)
def test_what_is_right(answer: Any, text: str, right: bool) -> None:
    assert Task("t", "counting", "", answer).right(text) == right


def test_mcnemar_is_the_binomial_test() -> None:
    from scipy.stats import binomtest

    for first, second in ((0, 0), (3, 0), (5, 5), (1, 9), (12, 4)):
        expected = binomtest(first, first + second).pvalue if first + second else 1.0
        assert mcnemar(first, second) == pytest.approx(expected)


def test_the_interval_of_a_loss() -> None:
    same = loss_interval(60, 0, 0)
    # Without discordant pairs the score's equation has a closed solution.
    assert same.high == pytest.approx(1.95996**2 / (60 + 1.95996**2), abs=1e-5)
    assert same.low == pytest.approx(-same.high)
    one, other = loss_interval(60, 9, 2), loss_interval(60, 2, 9)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert one.low < 7 / 60 < one.high


def test_the_interval_covers_as_it_says() -> None:
    """Over the outcomes of 40 tasks where 10% turn wrong and 5% right: the exact coverage."""
    covered = total = 0.0
    for first in range(14):
        for second in range(9):
            rest = 40 - first - second
            chance = comb(40, first) * comb(40 - first, second) * 0.10**first * 0.05**second * 0.85**rest
            interval = loss_interval(40, first, second)
            total += chance
            covered += chance * (interval.low <= 0.05 <= interval.high)
    assert total > 0.999
    assert 0.93 < covered < 0.98


@pytest.mark.parametrize(("wrong", "state"), [(3, "no difference shown"), (8, "worse")])
def test_a_loss_is_shown_or_bounded(wrong: int, state: str) -> None:
    ours = {str(number): True for number in range(60)}
    theirs = {str(number): number >= wrong for number in range(60)}
    (test,) = scored(BOTH, {"baseline": ours, "fast": theirs}, "shipped", 61)
    assert (test.state, test.only, test.right) == (state, (wrong, 0), (60, 60 - wrong))
    assert ("no loss larger than" in test.says) == (state != "worse")
    assert "1 of 61 were not answered by both" in test.says


def answering(wrong: int) -> Callable[[dict[str, Any]], str]:
    """A server that answers all tasks rightly but the first so many."""
    spoiled = [task.prompt for task in tasks()[:wrong]]

    def answer(body: dict[str, Any]) -> str:
        prompt = body["messages"][-1]["content"]
        known = KNOWN.get(prompt)
        return "Hello there." if known is None or prompt in spoiled else said(known)

    return answer


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "status"), [(2, 0), (15, 1)])
def test_the_command_asks_keeps_and_reports(wrong: int, status: int, tmp_path: Path) -> None:
    with serving(answering(0)) as (one, _), serving(answering(wrong)) as (other, _):
        _, _, folder = bench(tmp_path, [one, other])
        result = CliRunner().invoke(cli, ["quality", str(folder)], standalone_mode=False)
    assert result.return_value == status, result.output
    assert f"answers {60 - wrong} of 60 tasks rightly, baseline 60" in result.output
    assert len(read(folder, QUALITY)) == 120
    report = CliRunner().invoke(cli, ["report", str(folder), "--json"])
    (test,) = json.loads(report.stdout)["quality"]
    assert test["right"] == [60, 60 - wrong]
    assert "Are the answers right?" in (folder / "report.html").read_text(encoding="utf-8")


def test_without_lm_eval_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise lm_eval.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(lm_eval.importlib.metadata, "version", missing)
    result = CliRunner().invoke(cli, ["quality", "--lm-eval"])
    assert "lm-eval is not installed" in str(result.exception)
    assert lm_eval.VERSION in (getattr(result.exception, "remedy", "") or "")
    monkeypatch.setattr(lm_eval.importlib.metadata, "version", always("0.4.5"))
    assert "lm-eval is 0.4.5" in str(CliRunner().invoke(cli, ["quality", "--lm-eval"]).exception)


FAKE = """
import json, pathlib, sys
given = sys.argv[1:]
out = pathlib.Path(given[given.index("--output_path") + 1]) / "toy"
out.mkdir(parents=True)
(out / "arguments.json").write_text(json.dumps(given))
wrong = 3 if "speculative" in str(out) else 0
with (out / "samples_gsm8k_2026-12-01T09-00-00.jsonl").open("w") as file:
    for number in range(20):
        for name in ("strict-match", "flexible-extract"):
            right = float(name == "flexible-extract" and number >= wrong)
            file.write(json.dumps({"doc_id": number, "filter": name, "exact_match": right}) + "\\n")
"""
"""Takes lm-eval's place: keeps what it is called with, and leaves the files that lm-eval 0.4.13 leaves."""


@pytest.mark.slow
def test_the_lane_of_lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "lm_eval"
    module.mkdir()
    (module / "__main__.py").write_text(FAKE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(lm_eval.importlib.metadata, "version", always(lm_eval.VERSION))
    with serving(answering(0)) as (one, _), serving(answering(0)) as (other, _):
        _, _, folder = bench(tmp_path, [one, other])
        given = ["quality", str(folder), "--lm-eval", "--limit", "20"]
        result = CliRunner().invoke(cli, given, standalone_mode=False)
    assert result.return_value == 0, result.output
    assert (
        "speculative answers 17 of 20 tasks rightly, baseline 20 (gsm8k, flexible-extract)" in result.output
    )
    given = json.loads((folder / "lm-eval" / "baseline" / "toy" / "arguments.json").read_text())
    assert given[given.index("--tasks") + 1] == "gsm8k"
    assert given[given.index("--limit") + 1] == "20"
    settings = given[given.index("--model_args") + 1]
    assert f"base_url={one}/v1/chat/completions" in settings
    assert "model=toy" in settings


def test_lm_eval_is_no_part_of_the_package() -> None:
    assert not isinstance(sys.modules.get("lm_eval"), ModuleType)
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert "lm-eval" not in text
