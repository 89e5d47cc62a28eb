"""The network namespace is real, and a machine that has none says so."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from specdec.errors import EXIT_ENVIRONMENT, EnvironmentFault
from specdec.rehearsal import isolation

PROBE = """
    import socket, sys
    from specdec.errors import EnvironmentFault
    from specdec.rehearsal import isolation
    try:
        isolation.enter()
    except EnvironmentFault as error:
        print(error)
        sys.exit(error.exit_code)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
    try:
        socket.create_connection(("192.0.2.1", 80), timeout=5)
    except OSError as error:
        print(error.strerror)
"""


def test_only_loopback_is_left() -> None:
    probe = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROBE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if probe.returncode == EXIT_ENVIRONMENT:
        pytest.skip(probe.stdout.strip())
    assert probe.returncode == 0, probe.stderr
    assert probe.stdout.strip() == "Network is unreachable"


def test_a_machine_without_namespaces_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(flags: int) -> int:
        asked.append(flags)
        return 1  # EPERM

    monkeypatch.setattr(isolation, "_unshare", refuse)
    with pytest.raises(EnvironmentFault, match="Operation not permitted") as fault:
        isolation.enter()
    assert len(asked) == 2, "a user namespace is the second try"
    assert "--offline" in str(fault.value.remedy)


def test_another_system_is_told_that_it_is_for_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(EnvironmentFault, match="Linux"):
        isolation.enter()
