"""A second rehearsal is refused while the first runs, and only then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from specdec.errors import EXIT_ENVIRONMENT, EnvironmentFault
from specdec.rehearsal.lock import only_one, state_folder

HOLD = """
import sys, time
from pathlib import Path
from specdec.rehearsal.lock import only_one
with only_one(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_one_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    file = tmp_path / "state" / "rehearsal.lock"
    with (
        only_one(file),
        pytest.raises(EnvironmentFault, match=f"process {os.getpid()}, since 20") as fault,
        only_one(file),
    ):
        pytest.fail("the second one got in")
    assert fault.value.exit_code == EXIT_ENVIRONMENT


def test_it_can_be_taken_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with only_one(tmp_path / "rehearsal.lock"):
            pass


def test_one_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "rehearsal.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(EnvironmentFault, match=f"process {holder.pid}"), only_one(file):
            pytest.fail("the second one got in")
        holder.kill()
    assert str(holder.pid) in file.read_text(), "the file still names it"
    with only_one(file):
        pass


def test_a_file_with_nothing_in_it_is_not_a_puzzle(tmp_path: Path) -> None:
    file = tmp_path / "rehearsal.lock"
    with only_one(file):
        file.write_text("")
        with pytest.raises(EnvironmentFault, match="just started"), only_one(file):
            pytest.fail("the second one got in")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(EnvironmentFault, match="Cannot write the lock file") as fault,
        only_one(tmp_path / "file" / "rehearsal.lock"),
    ):
        pytest.fail("got in")
    assert "XDG_STATE_HOME" in str(fault.value.remedy)


def test_the_state_folder_is_the_users() -> None:
    assert state_folder({"XDG_STATE_HOME": "/state"}) == Path("/state/specdec")
    assert state_folder({"HOME": "/home/me"}) == Path("/home/me/.local/state/specdec")
