"""The emulator's process and the CDK command: nothing listens but on loopback, nothing outlives, faults are
told.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest

from specdec.errors import EnvironmentFault
from specdec.rehearsal import cdk as cdk_module
from specdec.rehearsal.cdk import Cdk, CdkError
from specdec.rehearsal.emulator import ACCOUNT, EmbeddedAws, embedded

pytestmark = pytest.mark.slow

EXPERIMENT = embedded.CHECKOUT / "experiment.toml"
HOLD = """
import sys, time
from pathlib import Path
from specdec.rehearsal.emulator import EmbeddedAws

with EmbeddedAws(Path(sys.argv[1])) as aws:
    print(aws.pid, flush=True)
    time.sleep(60)
"""


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def test_it_listens_on_loopback_only_and_stops(tmp_path: Path) -> None:
    with EmbeddedAws(tmp_path) as aws:
        pid, port = aws.pid, int(aws.endpoint.rsplit(":", 1)[1])
        assert pid
        listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        addresses = {
            fields[1].split(":")[0]
            for fields in listening
            if fields[1].endswith(f":{port:04X}") and fields[3] == "0A"
        }
        assert addresses == {"0100007F"}, "127.0.0.1, little-endian"
        assert aws.session("eu-west-1").client("sts").get_caller_identity()["Account"] == ACCOUNT
    assert gone(pid)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    aws.stop()


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        emulator = int(holder.stdout.readline())
        assert alive(emulator)
        holder.kill()
    assert gone(emulator)


def test_a_child_process_sees_nothing_of_the_real_account(account: EmbeddedAws) -> None:
    base = {
        "AWS_PROFILE": "real",
        "AWS_SESSION_TOKEN": "t",
        "HTTPS_PROXY": "http://proxy",
        "PATH": "/bin",
        "HOME": "/home/me",
    }
    child = account.environment("eu-west-1", base)
    assert child["AWS_ENDPOINT_URL"] == account.endpoint
    assert (child["AWS_REGION"], child["AWS_ACCESS_KEY_ID"]) == ("eu-west-1", ACCOUNT)
    assert child.keys() & {"AWS_PROFILE", "AWS_SESSION_TOKEN", "HTTPS_PROXY"} == set()
    assert child["PATH"].endswith(":/bin")
    assert (child["HOME"], child["AWS_CONFIG_FILE"]) == ("/home/me", os.devnull)


def test_a_profile_that_does_not_exist_here_does_no_harm(
    account: EmbeddedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    assert account.session("us-east-2").client("sts").get_caller_identity()["Account"] == ACCOUNT


def test_an_emulator_that_does_not_start_is_a_fault_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(EnvironmentFault, match="did not start") as fault, EmbeddedAws(tmp_path):
        pytest.fail("it started")
    assert str(fault.value.remedy).endswith("emulator.log")


def test_an_app_that_fails_is_told_in_its_own_words(account: EmbeddedAws, tmp_path: Path) -> None:
    app = (sys.executable, "-c", "raise SystemExit('capacity.purchase is not a choice')")
    with pytest.raises(
        CdkError, match=r"cdk synth failed:\n(.*\n)*.*capacity.purchase is not a choice"
    ) as error:
        Cdk(account, EXPERIMENT, tmp_path, app=app).synth()
    assert str(error.value.remedy).endswith("synth.log")


def test_a_command_that_hangs_is_ended_with_its_children(
    account: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = tmp_path / "pid"

    class Clock:
        """Three minutes are over as soon as the app has begun, however long that takes here."""

        @staticmethod
        def monotonic() -> float:
            return time.monotonic() + (180.0 if pid_file.exists() and pid_file.read_text() else 0.0)

    monkeypatch.setattr(cdk_module, "time", Clock)
    script = tmp_path / "app.py"
    script.write_text(
        f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )
    with pytest.raises(CdkError, match="did not end within 180 s"):
        Cdk(account, EXPERIMENT, tmp_path / "out", app=(sys.executable, str(script))).synth()
    assert gone(int(pid_file.read_text()))


def test_an_interrupt_ends_the_command_too(account: EmbeddedAws, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = tmp_path / "app.py"
    # The app interrupts the test as a user would, once it runs.
    told = f"os.kill({os.getpid()}, {int(signal.SIGINT)})"
    script.write_text(
        f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); {told}; time.sleep(60)"
    )
    with pytest.raises(KeyboardInterrupt):
        Cdk(account, EXPERIMENT, tmp_path / "out", app=(sys.executable, str(script))).synth()
    assert gone(int(pid_file.read_text()))


def test_a_region_that_cannot_be_bootstrapped_is_named_among_several(
    account: EmbeddedAws, tmp_path: Path
) -> None:
    fine, taken = "eu-west-1", "eu-west-3"
    bucket, place = f"cdk-hnb659fds-assets-{ACCOUNT}-{taken}", {"LocationConstraint": taken}
    account.session(taken).client("s3").create_bucket(
        Bucket=bucket, CreateBucketConfiguration=cast("Any", place)
    )
    told: list[str] = []
    with pytest.raises(CdkError) as error:
        Cdk(account, EXPERIMENT, tmp_path / "out").bootstrap(
            (fine, taken), lambda detail, done, total: told.append(detail)
        )
    assert f"CDKToolkit in {taken}: CDKToolkit (AWS::CloudFormation::Stack): " in str(error.value)
    assert fine not in str(error.value)
    assert any(f"CDKToolkit in {fine}: " in detail for detail in told)


def test_without_the_cdk_the_remedy_is_named(
    account: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cdk_module, "CHECKOUT", tmp_path)
    with pytest.raises(EnvironmentFault, match="CDK command is not installed") as fault:
        Cdk(account, EXPERIMENT, tmp_path / "out").synth()
    assert "npm ci" in str(fault.value.remedy)
