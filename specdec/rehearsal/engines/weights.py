"""The small model of the rehearsal: its weights come inside a package, quantized, and are written out once as
floats.

They are not used as shipped, because a step should wait for the bytes of the weights, as on the accelerator,
and not for unpacking them. 16-bit floats serve where proposals are looked up. A draft model gains only beside
a target of 32-bit floats, with which every request takes twice as long.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.metadata
import json
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from specdec.errors import EnvironmentFault
from specdec.forecast.shipped import MODEL, PACKAGE, packaged

_SPARE_BYTES = 64 << 20
"""Room left on the disk beside the weights, for records and logs."""

Bits = Literal[16, 32]
"""Size of the floats."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file that was checked.

    Attributes:
        path: GGUF file.
        sha256: of the file.
        made_from: package and version the weights came in.
    """

    path: Path
    sha256: str
    made_from: str


def as_floats(cache: Path, bits: Bits = 16, on_progress: Callable[[str], None] = lambda _: None) -> Weights:
    """The packaged weights as floats, made on first use and checked on every use.

    Args:
        cache: folder that keeps them.
        bits: see ``Bits``.
        on_progress: told how far it is.

    Raises:
        EnvironmentFault: no package, no space, or the folder cannot be written.
    """
    source = packaged()
    version = importlib.metadata.version(PACKAGE)
    path = cache / f"{MODEL}-f{bits}-{version}.gguf"
    note = path.with_suffix(".json")
    made_from = f"{PACKAGE} {version}"
    if path.exists():
        on_progress("checking the weights")
        digest = _sha256(path)
        if digest == _noted(note):
            return Weights(path, digest, made_from)
        on_progress("the cached weights are damaged; making them again")
    with _explained(cache):
        cache.mkdir(parents=True, exist_ok=True)
        # Hundreds of megabytes that nothing reads any more: what is damaged or cut short, and other versions.
        for stale in cache.glob(f"{MODEL}-*"):
            other = stale.name.startswith(f"{MODEL}-f{48 - bits}-{version}.")
            if not other or stale.suffix == ".part":
                stale.unlink()
        reader = _reader(source)
        needed = sum(int(tensor.n_elements) * _type(tensor, bits)().itemsize for tensor in reader.tensors)
        _require_space(cache, needed)
        temporary = path.with_suffix(".part")
        try:
            _write(reader, temporary, bits, on_progress)
            digest = _sha256(temporary)
            if temporary.stat().st_size < needed:
                raise EnvironmentFault(
                    f"{temporary} came out too short", remedy="Check the disk, then try again"
                )
            note.write_text(json.dumps({"sha256": digest, "made_from": made_from}) + "\n", encoding="utf-8")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    return Weights(path, digest, made_from)


def _reader(source: Path) -> Any:
    import gguf

    return gguf.GGUFReader(str(source))


def _write(reader: Any, path: Path, bits: Bits, on_progress: Callable[[str], None]) -> None:
    """Copies the metadata and writes every tensor as floats (GGUF specification, ggml/docs/gguf.md)."""
    import gguf
    import numpy as np

    own = {"general.architecture", "general.file_type", "general.quantization_version"}
    architecture: str = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(str(path), architecture)
    try:
        on_progress("reading the model's vocabulary")
        for name, field in reader.fields.items():
            if name in own or name.startswith("GGUF."):
                continue
            inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], inner)
        kinds = gguf.LlamaFileType
        writer.add_file_type(kinds.MOSTLY_F16 if bits == 16 else kinds.ALL_F32)
        for tensor in reader.tensors:
            shape = tuple(int(size) for size in reversed(tensor.shape))
            dtype = np.dtype(_type(tensor, bits))
            writer.add_tensor_info(tensor.name, shape, dtype, int(tensor.n_elements) * dtype.itemsize)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        total = len(reader.tensors)
        for number, tensor in enumerate(reader.tensors):
            if number % 20 == 0:
                on_progress(f"writing the weights as {bits}-bit floats, {number}/{total} tensors")
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            writer.write_tensor_data(np.ascontiguousarray(values, dtype=_type(tensor, bits)))
        writer.flush()
    finally:
        writer.close()


def _type(tensor: Any, bits: Bits) -> Any:
    """Floats as asked for matrices, 32-bit ones for vectors, which llama.cpp reads in no other type."""
    import numpy as np

    return np.float16 if bits == 16 and len(tensor.shape) > 1 else np.float32


def _require_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed + _SPARE_BYTES:
        raise _no_space(folder, f"{needed >> 20} MB are needed and {free >> 20} MB are free")


def _no_space(folder: Path, detail: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"No space for the model's weights in {folder}: {detail}",
        remedy="Free some space, or set XDG_CACHE_HOME to a folder on another disk",
    )


@contextmanager
def _explained(folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_space(folder, os.strerror(error.errno)) from None
        raise EnvironmentFault(
            f"Cannot write the model's weights in {folder}: {error.strerror or error}",
            remedy="Set XDG_CACHE_HOME to a folder you may write to",
        ) from None


def _noted(note: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(note.read_text(encoding="utf-8"))["sha256"])
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
