"""The small model in the forms that it is used in: its weights come inside a package, quantized, and are
written out once in each form that is needed.

A rehearsal's target does not use them as packaged, because a step should wait for the bytes of the weights,
as on the accelerator, and not for unpacking them. 16-bit floats serve where proposals are looked up. A draft
model gains only beside a target of 32-bit floats, with which every request takes twice as long. A forecast
reads its draft in Q4_0: llama.cpp multiplies many tokens at a time with it in half the time that the packaged
Q4_1 takes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import importlib.metadata
import json
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

from specdec.errors import EnvironmentFault
from specdec.extras import remedy
from specdec.forecast.shipped import MODEL, PACKAGE, packaged

_SPARE_BYTES = 64 << 20
"""Room left on the disk beside the weights, for records and logs."""

Form = Literal["f16", "f32", "Q4_0"]
"""Type of the matrices."""

FORMS: dict[Form, str] = {"f16": "16-bit floats", "f32": "32-bit floats", "Q4_0": "Q4_0"}
"""Every form, in words."""


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


def ready(cache: Path, form: Form = "f16", on_progress: Callable[[str], None] = lambda _: None) -> Weights:
    """The packaged weights in a form, made on first use and checked on every use. Processes that need them at
    the same time wait for each other.

    Args:
        cache: folder that keeps them.
        form: see ``Form``.
        on_progress: told how far it is.

    Raises:
        EnvironmentFault: no package, no space, or the folder cannot be written.
    """
    source = packaged()
    version = importlib.metadata.version(PACKAGE)
    path = cache / f"{MODEL}-{form}-{version}.gguf"
    made_from = f"{PACKAGE} {version}"
    with _explained(cache):
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache, on_progress):
            digest = _checked(path, on_progress) or _made(source, path, form, made_from, on_progress)
    return Weights(path, digest, made_from)


def _checked(path: Path, on_progress: Callable[[str], None]) -> str | None:
    """The digest of a file that is there and whole."""
    if not path.exists():
        return None
    on_progress("checking the weights")
    digest = _sha256(path)
    if digest == _noted(path.with_suffix(".json")):
        return digest
    on_progress("the cached weights are damaged; making them again")
    return None


def _made(source: Path, path: Path, form: Form, made_from: str, on_progress: Callable[[str], None]) -> str:
    """Writes the file and its note, and gives the digest."""
    version = importlib.metadata.version(PACKAGE)
    others = [f"{MODEL}-{other}-{version}." for other in FORMS if other != form]
    # Hundreds of megabytes that nothing reads any more: what is damaged or cut short, and other versions.
    for stale in path.parent.glob(f"{MODEL}-*"):
        if stale.suffix == ".part" or not stale.name.startswith(tuple(others)):
            stale.unlink()
    reader = _reader(source)
    needed = _needed(reader, form)
    _require_space(path.parent, needed)
    temporary = path.with_suffix(".part")
    try:
        _copy(reader, temporary, form, on_progress)
        digest = _sha256(temporary)
        if temporary.stat().st_size < needed:
            raise EnvironmentFault(f"{temporary} came out too short", remedy="Check the disk, then try again")
        note = json.dumps({"sha256": digest, "made_from": made_from}, allow_nan=False)
        path.with_suffix(".json").write_text(f"{note}\n", encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return digest


@contextmanager
def _alone(cache: Path, on_progress: Callable[[str], None]) -> Generator[None]:
    """Holds the folder's lock: the kernel's, which goes with the process that holds it."""
    holder = os.open(cache, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress("waiting for another process that makes or checks the weights")
            fcntl.flock(holder, fcntl.LOCK_EX)
        except OSError:
            on_progress("this disk locks no folder; start nothing else that needs the weights")
        yield
    finally:
        os.close(holder)


def write(source: Path, path: Path, form: str, on_progress: Callable[[str], None] = lambda _: None) -> None:
    """Copies a model with every matrix in another form (GGUF specification, ggml/docs/gguf.md).

    Args:
        source: GGUF file.
        path: of the copy.
        form: name of a type of ggml that can be made: ``f16``, ``bf16``, ``Q4_0``, ``Q8_0`` and others.
        on_progress: told how far it is.
    """
    _copy(_reader(source), path, form, on_progress)


def _reader(source: Path) -> Any:
    return _gguf().GGUFReader(str(source))


def _copy(reader: Any, path: Path, form: str, on_progress: Callable[[str], None]) -> None:
    gguf = _gguf()
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
        whole = "ALL" if form.upper() == "F32" else "MOSTLY"
        writer.add_file_type(gguf.LlamaFileType[f"{whole}_{form.upper()}"])
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        for tensor in reader.tensors:
            kind = _kind(tensor, form)
            shape, dtype = _stored(tensor, kind)
            writer.add_tensor_info(tensor.name, shape, dtype, _bytes(tensor, kind), kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        total = len(reader.tensors)
        for number, tensor in enumerate(reader.tensors):
            if number % 20 == 0:
                on_progress(f"writing the weights as {form}, {number}/{total} tensors")
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            writer.write_tensor_data(gguf.quantize(values, _kind(tensor, form)))
        writer.flush()
    finally:
        writer.close()


def _needed(reader: Any, form: str) -> int:
    """Bytes of all tensors in a form."""
    return sum(_bytes(tensor, _kind(tensor, form)) for tensor in reader.tensors)


def _gguf() -> Any:
    try:
        import gguf
    except ImportError:
        raise EnvironmentFault("The package gguf is not installed", remedy=remedy("forecast")) from None
    return gguf


def _kind(tensor: Any, form: str) -> Any:
    """The form asked for of matrices; 32-bit floats of vectors, which llama.cpp reads in no other."""
    kinds = _gguf().GGMLQuantizationType
    return kinds[form.upper()] if len(tensor.shape) > 1 else kinds.F32


def _stored(tensor: Any, kind: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and type of the array that stands for a tensor in the file."""
    import numpy as np

    shape = tuple(int(size) for size in reversed(tensor.shape))
    if kind.name in ("F16", "F32"):
        return shape, np.dtype(np.float16 if kind.name == "F16" else np.float32)
    block, size = _gguf().GGML_QUANT_SIZES[kind]
    return (*shape[:-1], shape[-1] // block * size), np.dtype(np.uint8)


def _bytes(tensor: Any, kind: Any) -> int:
    """Size of a tensor in the file."""
    shape, dtype = _stored(tensor, kind)
    return prod(shape) * int(dtype.itemsize)


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
