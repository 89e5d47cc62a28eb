"""The small model's weights in their forms: made once, whole, and by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from specdec.errors import EnvironmentFault
from specdec.forecast import weights


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the package's weights unread: that takes seconds, since they hold a vocabulary."""

    def reader(_: Path) -> None:
        return None

    def needed(_: None, form: str) -> int:
        return {"f16": 270 << 20, "f32": 540 << 20}[form]

    monkeypatch.setattr(weights, "_reader", reader)
    monkeypatch.setattr(weights, "_needed", needed)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.usefixtures("unread")
def test_a_full_disk_is_found_before_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> Usage:
        return Usage(1 << 40, 1 << 40, 100 << 20)

    monkeypatch.setattr("shutil.disk_usage", full)
    with pytest.raises(
        EnvironmentFault, match=r"No space for the model's weights .* 100 MB are free"
    ) as caught:
        weights.ready(tmp_path)
    assert caught.value.remedy is not None
    assert "XDG_CACHE_HOME" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("unread")
def test_a_disk_that_fills_up_leaves_no_half_written_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fills(_: Any, path: Path, *__: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(weights, "_copy", fills)
    with pytest.raises(EnvironmentFault, match="No space left on device"):
        weights.ready(tmp_path)
    assert list(tmp_path.iterdir()) == []


def count_writes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Has weights of the right size written without reading any; the files as they are made."""
    made: list[Path] = []

    def write(_: Any, path: Path, *__: object) -> None:
        made.append(path)
        with path.open("wb") as file:
            file.truncate(300 << 20)

    monkeypatch.setattr(weights, "_copy", write)
    return made


@pytest.mark.usefixtures("unread")
def test_damaged_cached_weights_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = count_writes(monkeypatch)
    first = weights.ready(tmp_path)
    assert weights.ready(tmp_path) == first
    assert len(made) == 1
    with first.path.open("r+b") as file:
        file.truncate(1 << 20)
    assert weights.ready(tmp_path) == first
    assert len(made) == 2


@pytest.mark.usefixtures("unread")
def test_weights_of_another_version_do_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(_: Any, path: Path, *__: object) -> None:
        with path.open("wb") as file:
            file.truncate(600 << 20)

    monkeypatch.setattr(weights, "_copy", write)
    for name in ("f32-0.1.gguf", "f32-0.1.json", "f16-0.1.part"):
        (tmp_path / f"{weights.MODEL}-{name}").touch()
    (tmp_path / "another-model.gguf").touch()
    made = weights.ready(tmp_path).path
    left = {made, made.with_suffix(".json"), tmp_path / "another-model.gguf"}
    assert set(tmp_path.iterdir()) == left
    # The other precision serves the draft model's target: both stay.
    wide = weights.ready(tmp_path, "f32").path
    assert set(tmp_path.iterdir()) == left | {wide, wide.with_suffix(".json")}


@pytest.mark.usefixtures("unread")
def test_who_needs_weights_that_another_makes_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count_writes(monkeypatch)
    waits = threading.Event()

    def note(message: str) -> None:
        if message.startswith("waiting for another process"):
            waits.set()

    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    thread = threading.Thread(target=weights.ready, args=(tmp_path, "f16", note))
    thread.start()
    assert waits.wait(30)
    assert made == []
    os.close(other)
    thread.join(30)
    assert len(made) == 1


@pytest.mark.parametrize(("form", "off"), [("f32", 0.0), ("f16", 1e-3), ("bf16", 1e-2), ("Q4_0", 0.15)])
def test_a_model_is_copied_in_another_form(form: str, off: float, tmp_path: Path) -> None:
    import gguf

    source, copy = tmp_path / "source.gguf", tmp_path / "copy.gguf"
    chance = np.random.default_rng(1)
    matrix, vector = (chance.uniform(-1, 1, size).astype(np.float32) for size in ((3, 64), (64,)))
    writer = gguf.GGUFWriter(str(source), "llama")
    writer.add_uint32("llama.block_count", 1)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tensor("m.weight", matrix)
    writer.add_tensor("v.weight", vector)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    weights.write(source, copy, form)
    reader: Any = gguf.GGUFReader(str(copy))
    needed = weights._needed(gguf.GGUFReader(str(source)), form)  # pyright: ignore[reportPrivateUsage]
    assert needed == sum(one.n_bytes for one in reader.tensors)
    tensors = {one.name: one for one in reader.tensors}
    assert tensors["m.weight"].tensor_type.name == form.upper()
    assert tensors["v.weight"].tensor_type.name == "F32"
    back = gguf.dequantize(tensors["m.weight"].data, tensors["m.weight"].tensor_type)
    assert back.shape == matrix.shape
    assert float(np.abs(back - matrix).max()) <= off
    assert (tensors["v.weight"].data == vector).all()
    assert reader.fields["tokenizer.ggml.tokens"].contents() == ["a", "b"]
    whole = "ALL" if form == "f32" else "MOSTLY"
    assert reader.fields["general.file_type"].contents() == gguf.LlamaFileType[f"{whole}_{form.upper()}"]
