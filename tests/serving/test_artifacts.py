"""The life of a compiled artifact: restored, compiled, kept, refused, and interrupted at every step. The
scripts run as they are.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specdec.experiment.reading import load
from specdec.serving import artifact_configuration, artifact_path
from specdec.serving.artifact import expected_library_configuration
from tests.serving.pod import Pod, Web, needs, serving

pytestmark = pytest.mark.slow

EXPERIMENT = load(Path(__file__).parents[2] / "experiment.toml")
VARIANT = EXPERIMENT.variants[1]
ARTIFACT = artifact_path(EXPERIMENT, VARIANT)
MODEL_KEY = "models/Org/Model/v1/.complete.json"
LIBRARY = {
    "neuron_config": {
        "tp_degree": 32,
        "batch_size": 4,
        "seq_len": 1024,
        "logical_nc_config": 2,
        "speculation_length": 7,
        "enable_fused_speculation": True,
        "enable_eagle_speculation": False,
        "sequence_parallel_enabled": False,
        "on_device_sampling_config": {"do_sample": False, "top_k": 1},
    },
    "fused_spec_config": {
        "draft_model_path": "/store/Qwen/Qwen3-1.7B/70d244cc86ccca08cf5af4e1e306ecf908b1ad5e"
    },
}
FILES = {
    "neuron_config.json": json.dumps(LIBRARY),
    "model.pt": "graph",
    "weights/tp0_sharded_checkpoint.safetensors": "weights",
}


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    needs("bash", "curl", "jq", "setsid")
    pod = Pod(tmp_path)
    pod.put(MODEL_KEY, {"model": "Org/Model", "commit": "c1"})
    return pod


@pytest.fixture
def server() -> Iterator[Web]:
    web = Web()
    web.page("/health", b"")
    with serving(web):
        yield web


def environment(pod: Pod, **more: str) -> dict[str, str]:
    return {
        "ARTIFACT": ARTIFACT,
        "ARTIFACT_DIR": str(pod.disk / "whole"),
        "ARTIFACT_FROZEN": "yes",
        "BUCKET": "bucket",
        "CONFIGURATION": json.dumps(artifact_configuration(EXPERIMENT, VARIANT)),
        "LIBRARY_CONFIGURATION": json.dumps(expected_library_configuration(EXPERIMENT, VARIANT)),
        "MARKER": "marker.json",
        "MODEL_MARKERS": MODEL_KEY,
        "POD_UID": "pod",
        "SERVER": "http://127.0.0.1:9",
        "STAGING_SECONDS": "1",
        "WARM_ARGUMENTS": '["/store/model","--port","8000"]',
        **more,
    }


def compiled(pod: Pod, files: dict[str, str] = FILES) -> None:
    """What a server leaves on disk once it has compiled."""
    pod.disk.joinpath("whole").mkdir(exist_ok=True)
    for path, text in files.items():
        target = pod.disk / "whole" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (pod.disk / "models.json").write_text('{"Org/Model": "c1"}')


def kept(pod: Pod, **marker: object) -> None:
    """An artifact that another pod uploaded."""
    for path, text in FILES.items():
        pod.put(f"{ARTIFACT}/first/{path}", text)
    sizes = {path: len(text) for path, text in FILES.items()}
    configuration = artifact_configuration(EXPERIMENT, VARIANT)
    whole = {
        "attempt": "first",
        "configuration": configuration,
        "models": {"Org/Model": "c1"},
        "files": sizes,
    }
    pod.put(f"{ARTIFACT}/marker.json", whole | marker)


def keep(pod: Pod, done: Callable[[], bool], **more: str) -> str:
    """Runs the companion until it rests or ends, and returns what it said."""
    process = pod.start("keep.sh", **environment(pod, **more))
    for _ in range(400):
        if done() or process.poll() is not None:
            break
        time.sleep(0.05)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=20)
    return output


def whole(pod: Pod) -> bool:
    return (pod.disk / "whole.whole").exists()


def test_without_an_artifact_the_server_compiles(pod: Pod) -> None:
    code, output = pod.run("restore.sh", **environment(pod))
    assert code == 0, output
    assert "the server compiles it" in output
    assert not whole(pod)


def test_a_kept_artifact_is_restored_and_starts_the_server_without_compiling(pod: Pod) -> None:
    kept(pod)
    code, output = pod.run("restore.sh", **environment(pod))
    assert code == 0, output
    for path, text in FILES.items():
        assert (pod.disk / "whole" / path).read_text() == text
    pod.program("vllm", 'echo "vllm $*"; ls "$ARTIFACT_DIR"')
    code, output = pod.run("serve.sh", "vllm", "serve", "/cold", **environment(pod))
    assert code == 0
    assert output.splitlines()[0] == "vllm serve /store/model --port 8000"
    assert "model.pt" in output
    assert (pod.disk / "whole" / "model.pt").stat().st_mode & 0o222 == 0


def test_a_failed_compile_is_gone_when_the_server_starts_again(pod: Pod) -> None:
    compiled(pod, {"neuron_config.json": "{}"})
    pod.program("vllm", 'echo "vllm $*"; ls -A "$ARTIFACT_DIR"')
    code, output = pod.run("serve.sh", "vllm", "serve", "/cold", **environment(pod))
    assert code == 0
    assert output == "vllm serve /cold\n"


def test_models_that_never_arrive_end_the_wait(pod: Pod) -> None:
    (pod.bucket / MODEL_KEY).unlink()
    code, output = pod.run("restore.sh", **environment(pod))
    assert code == 1
    assert "did not appear: see the logs of the staging Jobs" in output


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ({"configuration": {"window": 15}}, "names another configuration"),
        ({"models": {"Org/Model": "c0"}}, "compiled from other weights"),
        ({"files": {"model.pt": 5}}, "differ from its marker"),
        ({"files": dict.fromkeys(FILES, 1)}, "differ from its marker"),
    ],
)
def test_an_artifact_that_is_not_what_was_asked_for_is_refused(
    pod: Pod, marker: dict[str, object], words: str
) -> None:
    kept(pod, **marker)
    code, output = pod.run("restore.sh", **environment(pod))
    assert code == 1
    assert words in output
    assert not whole(pod)


@pytest.mark.parametrize(
    ("field", "value"), [("speculation_length", 15), ("tp_degree", 64), ("enable_fused_speculation", False)]
)
def test_the_librarys_own_configuration_file_is_compared(
    pod: Pod, server: Web, field: str, value: object
) -> None:
    other = json.dumps(LIBRARY | {"neuron_config": LIBRARY["neuron_config"] | {field: value}})
    kept(pod)
    pod.put(f"{ARTIFACT}/first/neuron_config.json", other)
    files = {path: len(text) for path, text in (FILES | {"neuron_config.json": other}).items()}
    pod.put(f"{ARTIFACT}/marker.json", json.loads(pod.read(f"{ARTIFACT}/marker.json")) | {"files": files})
    code, output = pod.run("restore.sh", **environment(pod))
    assert code == 1
    assert f".neuron_config.{field} is {json.dumps(value)}" in output
    for key in pod.objects() - {MODEL_KEY}:
        (pod.bucket / key).unlink()
    compiled(pod, FILES | {"neuron_config.json": other})
    output = keep(pod, lambda: False, SERVER=server.url)
    assert f".neuron_config.{field} is {json.dumps(value)}" in output
    assert pod.objects() == {MODEL_KEY}


def test_a_bucket_that_refuses_is_not_taken_for_an_absent_artifact(pod: Pod) -> None:
    code, output = pod.run("restore.sh", **environment(pod, REFUSE=ARTIFACT))
    assert code == 1
    assert "AccessDenied" in output


def test_what_was_compiled_is_kept_and_the_next_pod_restores_it(pod: Pod, server: Web) -> None:
    compiled(pod)
    output = keep(pod, lambda: whole(pod), SERVER=server.url)
    assert "kept" in output
    code, output = pod.run("restore.sh", **environment(pod))
    assert code == 0, output
    assert "restored" in output


def test_nothing_is_kept_of_a_server_that_is_not_healthy(pod: Pod, server: Web) -> None:
    compiled(pod)
    server.page("/health", b"", status=503)
    keep(pod, lambda: len(server.seen) > 3, SERVER=server.url)
    assert pod.objects() == {MODEL_KEY}
    assert not whole(pod)


def test_the_second_of_two_servers_that_compiled_the_same_does_not_touch_the_first_ones(
    pod: Pod, server: Web
) -> None:
    compiled(pod)
    # The other server's marker appears between this one's look and its own marker: at the third call, after
    # the upload.
    pod.program("aws-real", (pod.bin / "aws").read_text().splitlines()[1])
    marker = pod.folder / "first.json"
    kept(pod)
    (pod.bucket / ARTIFACT / "marker.json").rename(marker)
    first = pod.read(f"{ARTIFACT}/first/model.pt")
    pod.program(
        "aws",
        f'case "$*" in *put-object*) cp "{marker}" "{pod.bucket / ARTIFACT / "marker.json"}";; esac; exec'
        ' aws-real "$@"',
    )
    output = keep(pod, lambda: whole(pod), SERVER=server.url)
    assert "another server was first" in output
    assert pod.read(f"{ARTIFACT}/marker.json") == marker.read_text()
    assert pod.read(f"{ARTIFACT}/first/model.pt") == first
    code, output = pod.run("restore.sh", **environment(pod))
    assert code == 0, output


def test_a_companion_beside_a_restored_artifact_uploads_nothing(pod: Pod) -> None:
    kept(pod)
    pod.run("restore.sh", **environment(pod))
    before = pod.objects()
    keep(pod, lambda: True)
    assert pod.objects() == before


def test_an_empty_artifact_is_a_fault_only_where_the_library_promises_one(pod: Pod, server: Web) -> None:
    compiled(pod, {})
    assert "neuron_config.json is missing" in keep(pod, lambda: False, SERVER=server.url)
    assert not whole(pod)
    output = keep(pod, lambda: whole(pod), SERVER=server.url, LIBRARY_CONFIGURATION="{}")
    assert "the next one compiles again" in output
    assert pod.objects() == {MODEL_KEY}


def test_killed_at_every_step_of_keeping_there_is_a_whole_artifact_or_none(pod: Pod, server: Web) -> None:
    compiled(pod)
    for moment in ("1", "2", "2~", "3", "3+"):
        for key in pod.objects() - {MODEL_KEY}:
            (pod.bucket / key).unlink()
        (pod.disk / "whole.whole").unlink(missing_ok=True)
        pod.forget_calls()
        keep(pod, lambda: False, SERVER=server.url, KILL_AT=moment)
        marked = f"{ARTIFACT}/marker.json" in pod.objects()
        assert marked == (moment == "3+")
        pod.forget_calls()
        output = keep(pod, lambda: whole(pod), SERVER=server.url)
        assert "already there" in output if marked else "kept" in output
        code, output = pod.run("restore.sh", **environment(pod))
        assert code == 0, output
        assert {path: (pod.disk / "whole" / path).read_text() for path in FILES} == FILES


def test_killed_at_every_step_of_restoring_no_half_artifact_is_served(pod: Pod) -> None:
    kept(pod)
    for moment in ("1", "2", "3", "4", "5", "5~", "5+"):
        pod.forget_calls()
        code, _ = pod.run("restore.sh", **environment(pod, KILL_AT=moment))
        assert code == -9
        assert not whole(pod)
    pod.forget_calls()
    code, output = pod.run("restore.sh", **environment(pod))
    assert code == 0, output
    assert whole(pod)


def test_a_full_disk_is_not_served(pod: Pod) -> None:
    kept(pod)
    aws = (pod.bin / "aws").read_text().splitlines()[1]
    pod.program(
        "aws", f'case "$*" in *sync*) echo "[Errno 28] No space left on device" >&2; exit 1;; esac; {aws}'
    )
    code, output = pod.run("restore.sh", **environment(pod))
    assert code == 1
    assert "No space left on device" in output
    assert not whole(pod)
