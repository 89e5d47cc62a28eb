"""Runs the pods' scripts as they are, against stand-ins for AWS, the hub, the server and the node's disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.web import Quiet, running

SCRIPTS = Path(__file__).parents[2] / "charts" / "scripts"


def needs(*programs: str) -> None:
    """Skips the test, with the reason shown, where a program of the pod's image is not on this machine."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"the pods' scripts need {', '.join(missing)}, which this machine does not have")


class Pod:
    """A pod's file system and bucket in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bucket = folder / "s3" / "objects"
        self.disk = folder / "disk"
        for path in (self.bin, self.bucket, self.disk):
            path.mkdir(parents=True)
        self.program("aws", f'exec "{sys.executable}" -I -S "{Path(__file__).parent / "fake_aws.py"}" "$@"')

    def program(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def put(self, key: str, value: object) -> None:
        path = self.bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))

    def objects(self) -> set[str]:
        return {path.relative_to(self.bucket).as_posix() for path in self.bucket.rglob("*") if path.is_file()}

    def read(self, key: str) -> str:
        return (self.bucket / key).read_text()

    def calls(self) -> int:
        log = self.folder / "s3" / "calls.log"
        return log.read_text().count("\n") if log.exists() else 0

    def forget_calls(self) -> None:
        (self.folder / "s3" / "calls.log").unlink(missing_ok=True)

    def start(self, script: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", str(SCRIPTS / script), *arguments],
            env={
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "FAKE_S3": str(self.folder / "s3"),
                "PAUSE": "0.05",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str, *arguments: str, **environment: str) -> tuple[int, str]:
        process = self.start(script, *arguments, **environment)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output


class Web:
    """A small web server: path to (status, body), and to further headers."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, bytes]] = {}
        self.more: dict[str, dict[str, str]] = {}
        self.headers: list[dict[str, str]] = []
        self.seen: list[str] = []
        self.url = ""

    def page(self, path: str, body: object, status: int = 200) -> None:
        self.pages[path] = (status, body if isinstance(body, bytes) else json.dumps(body).encode())


@contextmanager
def serving(web: Web) -> Generator[Web]:
    class Handler(Quiet):
        def do_GET(self) -> None:
            web.seen.append(self.path)
            web.headers.append(dict(self.headers.items()))
            status, body = web.pages.get(self.path, (404, b"no such page"))
            self.send_response(status)
            for name, value in web.more.get(self.path, {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with running(Handler) as url:
        web.url = url
        yield web


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def tree(files: dict[str, bytes], large: set[str]) -> list[dict[str, object]]:
    """The hub's listing of a model: large files carry the digest of their content, the others their git blob
    id.
    """
    return [
        {
            "type": "file",
            "path": path,
            "size": len(content),
            "oid": git_id(content),
            **(
                {"lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content)}}
                if path in large
                else {}
            ),
        }
        for path, content in files.items()
    ]
