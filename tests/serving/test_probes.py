"""The scripts that say when a server is ready and that let it finish: run as they are, against a stand-in for
curl.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.serving.pod import Pod, needs


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    needs("bash", "jq", "awk")
    return Pod(tmp_path)


def answering(pod: Pod, *, healthy: bool, models: list[str]) -> None:
    listing = json.dumps({"data": [{"id": model} for model in models]})
    health = "exit 0" if healthy else "exit 22"
    pod.program(
        "curl",
        f"case \"$*\" in *:8000/health) {health} ;; *:8000/v1/models) echo '{listing}' ;; *) exit 6 ;; esac",
    )


@pytest.mark.parametrize(
    ("healthy", "models", "ready"),
    [
        (True, ["Qwen/Qwen3-32B"], True),
        (True, ["Qwen/Qwen3-1.7B"], False),
        (True, [], False),
        (False, ["Qwen/Qwen3-32B"], False),
    ],
)
def test_ready_is_healthy_and_serving_the_model(
    pod: Pod, healthy: bool, models: list[str], ready: bool
) -> None:
    answering(pod, healthy=healthy, models=models)
    code, _ = pod.run("ready.sh", SERVED_MODEL="Qwen/Qwen3-32B")
    assert (code == 0) == ready


def test_draining_waits_for_the_requests_in_flight(pod: Pod) -> None:
    left = pod.folder / "left"
    left.write_text("2")
    pod.program(
        "curl",
        f'n=$(cat "{left}")\necho $((n > 0 ? n - 1 : 0)) > "{left}"\necho "vllm:num_requests_running{{m=1}}'
        ' $n.0"',
    )
    code, _ = pod.run("drain.sh")
    assert code == 0
    assert left.read_text().strip() == "0"


def test_draining_does_not_wait_for_a_dead_server(pod: Pod) -> None:
    pod.program("curl", "exit 7")
    code, _ = pod.run("drain.sh")
    assert code == 0
