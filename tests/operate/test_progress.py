"""``specdec wait`` shows how a run stands, from what the benchmark pod prints."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from specdec.benchmark.standing import Standing
from specdec.commands.wait import Following, measuring
from specdec.errors import NoAccessError
from specdec.experiment.reading import load
from specdec.operate import kubernetes
from specdec.operate.nodes import Step
from specdec.operate.progress import from_cloudwatch, from_cluster
from specdec.operate.workloads import BENCHMARK, NAME_LABEL
from specdec.runs.progress import Progress, newest
from tests.operate.conftest import DEFAULT, REGION, StubbedAws
from tests.report.sample import CASES, records

RUN = "20261206T180000Z-0b8c11"
NOW = datetime(2026, 12, 6, 18, 30, tzinfo=UTC)
EXPERIMENT = load(DEFAULT)
STACK = EXPERIMENT.stack_name(REGION)
DENIED = "User: x is not authorized to perform: logs:FilterLogEvents on resource: y"


def printed(done: int) -> str:
    """What the pod prints after ``done`` requests, with the time in front."""
    standing = Standing("baseline")
    for line in records(cases=CASES[:3], tokens=40)[:done]:
        standing.add(line)
    return f"18:29:00 {Progress(RUN, f'{done}/48, baseline numbers{standing}')}"


def shipped(line: str) -> str:
    """The same line as the agent of Container Insights wraps it."""
    return json.dumps({"time": "2026-12-06T18:29:00Z", "stream": "stdout", "log": line + "\n"})


def test_the_line_tells_medians_and_how_the_verdict_stands() -> None:
    progress = newest([printed(4), "18:29:01 published 3 datums", printed(48), "18:30:00 done"])
    assert progress is not None
    assert progress.run == RUN
    assert progress.words.startswith("48/48, baseline numbers; TPOT baseline 45")
    assert "tokens/step), so far " in progress.words
    assert progress.words.endswith("faster on 3 of 3 test cases")


@pytest.mark.parametrize(("tokens", "told"), [((1, 2, 3, 4), True), ((1, 3, 5, 7), False)])
def test_steps_are_told_where_the_plain_server_shows_each_of_its_own(
    tokens: tuple[int, ...], told: bool
) -> None:
    standing = Standing("baseline")
    for line in records(cases=CASES[:2], tokens=40):
        times = line.chunk_times[: len(tokens)]
        plain = replace(line, chunk_times=times, chunk_tokens=tokens, output_tokens=tokens[-1], closed=None)
        standing.add(plain if line.variant == "baseline" else line)
    assert ("tokens/step" in str(standing)) is told


def test_a_slower_variant_is_shown_as_slower() -> None:
    standing = Standing("baseline")
    for line in records(cases=CASES[:2], tokens=40):
        slow = replace(line, chunk_times=tuple(9 * time for time in line.chunk_times), closed=None)
        standing.add(slow if line.variant == "speculative" else line)
    assert ", so far 0." in str(standing)
    assert "faster on 0 of 2 test cases" in str(standing)


def test_nothing_is_compared_before_both_have_the_test_case() -> None:
    assert "so far" not in printed(1)


@pytest.mark.parametrize("wrap", [str, shipped])
def test_a_wrapped_line_reads_the_same(wrap: Any) -> None:
    assert newest([wrap(printed(48))]) == newest([printed(48)])


def test_cloudwatch_is_asked_for_the_last_minutes(aws: StubbedAws) -> None:
    late = {"timestamp": 2, "message": shipped(printed(48))}
    aws.answers(
        "logs",
        "filter_log_events",
        {"events": [late, {"timestamp": 1, "message": shipped(printed(4))}]},
    )
    progress = from_cloudwatch(STACK, aws.clients, now=NOW)
    assert progress is not None
    assert progress.words.startswith("48/48")


def test_a_log_group_that_is_not_there_yet_tells_nothing(aws: StubbedAws) -> None:
    aws.fails("logs", "filter_log_events", "ResourceNotFoundException")
    assert from_cloudwatch(STACK, aws.clients, now=NOW) is None


class Kubectl:
    """kubectl that knows two benchmark pods, an old one and one that runs."""

    def items(self, kind: str) -> list[dict[str, Any]]:
        assert kind == "pods"
        labels = {NAME_LABEL: BENCHMARK}
        return [
            {
                "metadata": {"name": name, "labels": labels, "creationTimestamp": created},
                "status": {"phase": phase},
            }
            for name, created, phase in (
                ("llmperf-b", "2026-12-06T18:00:00Z", "Running"),
                ("llmperf-a", "2026-11-29T18:00:00Z", "Succeeded"),
            )
        ]

    def __call__(self, arguments: list[str]) -> str:
        assert arguments[:2] == ["logs", "llmperf-b"]
        return f"{printed(4)}\n{printed(48)}\n"


def test_the_cluster_is_asked_for_the_pod_that_runs() -> None:
    progress = from_cluster(Kubectl())  # pyright: ignore[reportArgumentType]
    assert progress == newest([printed(48)])


def test_wait_shows_it_once_a_minute(
    aws: StubbedAws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def made(*_: object) -> Kubectl:
        return Kubectl()

    monkeypatch.setattr(kubernetes, "Kubectl", made)
    running = [Step("job llmperf-1a2b", "waiting", "running", None, "Kubernetes")]
    assert measuring(running)
    following = Following(EXPERIMENT, REGION, aws.clients)
    following.show([replace(running[0], detail="not started")], asked=True)
    assert capsys.readouterr().err == ""
    following.show(running, asked=True)
    assert f"run {RUN}: 48/48, baseline numbers; TPOT baseline 45" in capsys.readouterr().err.replace(
        "\n", " "
    )
    following.show(running, asked=True)
    assert capsys.readouterr().err == ""


def test_an_identity_that_may_not_read_logs_is_told_once(
    aws: StubbedAws, capsys: pytest.CaptureFixture[str]
) -> None:
    aws.fails("logs", "filter_log_events", "AccessDeniedException", DENIED)
    following = Following(EXPERIMENT, REGION, aws.clients)
    following.show([], asked=False)
    assert "running medians are not shown: not allowed: logs:FilterLogEvents" in capsys.readouterr().err
    following.show([], asked=False)
    assert capsys.readouterr().err == ""
    aws.fails("logs", "filter_log_events", "AccessDeniedException", DENIED)
    with pytest.raises(NoAccessError):
        from_cloudwatch(STACK, aws.clients, now=NOW)
