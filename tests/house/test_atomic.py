"""A file is there whole or as it was before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specdec import atomic
from specdec.errors import EnvironmentFault


def test_a_file_is_replaced_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text in ("old\n", "new ä\n"):
        atomic.write(path, text)
        assert path.read_bytes() == text.encode()
    assert list(tmp_path.iterdir()) == [path]
    mask = os.umask(0o022)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic.write(path, "old")
    path.chmod(mode)
    atomic.write(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o7777 == mode


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "interrupted"]
)
def test_a_file_that_cannot_be_finished_stays_as_it_was(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    atomic.write(path, "old")

    def fail(descriptor: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(EnvironmentFault if isinstance(error, OSError) else KeyboardInterrupt) as caught:
        atomic.write(path, "new", remedy="Buy a disk")
    if isinstance(caught.value, EnvironmentFault):
        assert str(caught.value) == f"{path} cannot be written: No space left on device"
        assert caught.value.remedy == "Buy a disk"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
