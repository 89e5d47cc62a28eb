"""The code that goes into the benchmark pod: what its entry imports, found in the sources themselves."""

from __future__ import annotations

import ast
import base64
import bz2
import functools
import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from specdec.errors import SpecdecError

ROOT = Path(__file__).parents[1]
PACKAGE = "specdec"
ENTRY = "specdec.pod.__main__"

MOST_CODE_BYTES = 195_000
"""Most that the code may take as base64: one manifest holds 220,000 bytes
(``trainium_constructs.workloads``), of which the Job, the experiment and the locked requirements need 20,000.
"""


@functools.cache
def sources() -> Mapping[str, str]:
    """The pod's own code and prompt sets: path in the archive to text.

    A module of which the pod imports nothing stays out: all of the package would not fit.
    """
    paths = {_path_of(name) for name in modules(ENTRY)}
    paths |= set((ROOT / PACKAGE / "prompts").rglob("*.jsonl"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}


def modules(entry: str) -> frozenset[str]:
    """A module of the package and all that it imports when it runs, directly, through others, or within a
    function. What only a type checker imports is left out.
    """
    seen: set[str] = set()
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in seen or name.partition(".")[0] != PACKAGE or not _path_of(name).is_file():
            continue
        seen.add(name)
        # A package comes before its modules.
        waiting.append(name.rpartition(".")[0])
        waiting += imported(ast.parse(_path_of(name).read_text(encoding="utf-8")).body)
    return frozenset(seen)


def imported(statements: list[ast.stmt]) -> Iterator[str]:
    """Names that statements import, at any depth; of ``from a import b`` both ``a`` and ``a.b``, which may be
    a module.
    """
    for statement in statements:
        match statement:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=otherwise):
                yield from imported(otherwise)
            case ast.Match(cases=cases):
                for case in cases:
                    yield from imported(case.body)
            case _:
                for field in ("body", "orelse", "finalbody"):
                    yield from imported(getattr(statement, field, None) or [])
                for handler in getattr(statement, "handlers", ()):
                    yield from imported(handler.body)


def packed(texts: Mapping[str, str]) -> str:
    """The archive of files as base64, for a config map.

    Raises:
        SpecdecError: it is too large for one.
    """
    code = base64.b64encode(archive(texts)).decode()
    if len(code) > MOST_CODE_BYTES:
        raise SpecdecError(
            f"the benchmark pod's code takes {len(code)} bytes, and its config map has room for"
            f" {MOST_CODE_BYTES}",
            remedy=f"Move what only a command line uses out of what {ENTRY} imports",
        )
    return code


def archive(texts: Mapping[str, str]) -> bytes:
    """A tar archive of files that depends on nothing but them: no times, no owners.

    Compressed with bzip2, because its output is the same everywhere, while that of zlib depends on which zlib
    Python was built with.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, text in texts.items():
            content = text.encode()
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return bz2.compress(buffer.getvalue())


def _path_of(module: str) -> Path:
    """Where a module of the package would be."""
    path = ROOT / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
