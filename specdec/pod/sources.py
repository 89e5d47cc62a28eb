"""Fetches what the LLMPerf lane needs beyond package indexes, each pinned by content or by commit.

``LLMPERF_SOURCE`` and ``LLMPERF_TOKENIZER`` name mirrors.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from specdec.errors import EnvironmentFault, SpecdecError
from specdec.llmperf.results import COMMIT, TREE

ARCHIVE = f"https://github.com/ray-project/llmperf/archive/{COMMIT}.tar.gz"

TOKENIZER_REVISION = "0984d03108b1a041ed679bd253b6519b7e1a4778"
"""Commit of hf-internal-testing/llama-tokenizer that the transformers library's own tests pin
(tests/models/llama).
"""
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
TOKENIZER_BASE = f"https://huggingface.co/hf-internal-testing/llama-tokenizer/resolve/{TOKENIZER_REVISION}"

_ATTEMPTS = 4

Fetch = Callable[[str], bytes]


def fetch(url: str) -> bytes:
    """The bytes behind a URL.

    Raises:
        EnvironmentFault: not to be had in four attempts.
    """
    for attempt in range(_ATTEMPTS):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 (constants above, or the experiment's mirrors)
                return answer.read()
        except (urllib.error.URLError, OSError) as error:
            if attempt == _ATTEMPTS - 1:
                raise EnvironmentFault(
                    f"{url} cannot be fetched: {error}",
                    remedy="Let the pod reach it, or drop the llmperf lane",
                ) from None
            time.sleep(2.0**attempt)
    raise AssertionError("unreachable")


def llmperf(target: Path, *, get: Fetch = fetch, tree: str = TREE) -> Path:
    """LLMPerf's source at the pinned commit, in ``target``.

    The archive is made anew by its host, so its own bytes prove nothing: the files are checked against the
    commit's git tree.

    Raises:
        EnvironmentFault: not to be had.
        SpecdecError: not the files of that commit.
    """
    address = os.environ.get("LLMPERF_SOURCE", ARCHIVE)
    with tarfile.open(fileobj=io.BytesIO(get(address)), mode="r:gz") as archive:
        unpack(archive, target)
    (source,) = [path for path in target.iterdir() if path.is_dir()]
    digest = git_tree(source)
    if digest != tree:
        raise SpecdecError(
            f"{address} holds git tree {digest}, {tree} was expected",
            remedy="Do not run it; find out who changed it",
        )
    return source


def unpack(archive: tarfile.TarFile, target: Path) -> None:
    """Extracts files, folders and links into ``target`` and nowhere else.

    Raises:
        SpecdecError: a member would be elsewhere, or is none of these.
    """
    try:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(target, filter="data")
            return
        # Python 3.11.0 to 3.11.3, Debian 12's among them, have no filters: as strict, by hand.
        for member in archive.getmembers():
            end = Path(member.name).parent / member.linkname if member.issym() else Path(member.linkname)
            for path in (Path(member.name), end):
                if not (target / path).resolve().is_relative_to(target.resolve()):
                    raise tarfile.TarError(f"{member.name!r} would be outside of the folder")
            if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
                raise tarfile.TarError(f"{member.name!r} is not a file, folder or link")
            member.uid = member.gid = os.getuid()
            archive.extract(member, target)
    except tarfile.TarError as error:
        raise SpecdecError(f"an archive cannot be unpacked: {error}", remedy="Do not use it") from None


def tokenizer(target: Path, *, get: Fetch = fetch) -> Path:
    """The files of the tokenizer that LLMPerf counts with, in ``target``.

    Raises:
        EnvironmentFault: not to be had.
    """
    target.mkdir(parents=True, exist_ok=True)
    base = os.environ.get("LLMPERF_TOKENIZER", TOKENIZER_BASE)
    for name in TOKENIZER_FILES:
        (target / name).write_bytes(get(f"{base.rstrip('/')}/{name}"))
    return target


def git_tree(folder: Path) -> str:
    """The id that git gives to a folder with this content: SHA-1 over names, modes and contents.

    https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
    """
    entries: list[tuple[str, bytes]] = []
    for path in folder.iterdir():
        name = path.name.encode()
        if path.is_symlink():
            entries.append(
                (path.name, b"120000 " + name + b"\0" + _object("blob", os.fsencode(path.readlink())))
            )
        elif path.is_dir():
            # Git sorts folders as if their names ended in a slash.
            entries.append((path.name + "/", b"40000 " + name + b"\0" + bytes.fromhex(git_tree(path))))
        else:
            mode = b"100755 " if path.stat().st_mode & stat.S_IXUSR else b"100644 "
            entries.append((path.name, mode + name + b"\0" + _object("blob", path.read_bytes())))
    return _object(
        "tree", b"".join(entry for _, entry in sorted(entries, key=lambda entry: entry[0].encode()))
    ).hex()


def _object(kind: str, content: bytes) -> bytes:
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).digest()
