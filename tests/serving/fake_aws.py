"""A stand-in for the AWS command line in front of a folder. Says what the real one says when something is
refused.

Environment: FAKE_S3 (folder), KILL_AT ("3", "3+" or "3~": kill the whole process group before, after or amid
the third call).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

ROOT = Path(os.environ["FAKE_S3"])
OBJECTS = ROOT / "objects"
METADATA = ROOT / "metadata"


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def refuse(code: str, operation: str) -> None:
    print(
        f"An error occurred ({code}) when calling the {operation} operation: refused by the stand-in",
        file=sys.stderr,
    )
    sys.exit(254)


def kill() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def store(source: Path, key: str, metadata: str = "") -> None:
    target = OBJECTS / key
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    note = METADATA / key
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(dict([metadata.split("=", 1)]) if metadata else {}))


def key_of(uri: str) -> str:
    return uri.removeprefix("s3://bucket/")


def get_object(arguments: list[str], _: bool) -> None:
    source = OBJECTS / option(arguments, "--key")
    if not source.is_file():
        refuse("NoSuchKey", "GetObject")
    shutil.copyfile(source, arguments[-1])


def head_object(arguments: list[str], _: bool) -> None:
    key = option(arguments, "--key")
    if not (OBJECTS / key).is_file():
        print("An error occurred (404) when calling the HeadObject operation: Not Found", file=sys.stderr)
        sys.exit(254)
    size = (OBJECTS / key).stat().st_size
    print(json.dumps({"ContentLength": size, "Metadata": json.loads((METADATA / key).read_text())}))


def list_objects(arguments: list[str], _: bool) -> None:
    prefix = option(arguments, "--prefix")
    keys = sorted(path.relative_to(OBJECTS).as_posix() for path in OBJECTS.rglob("*") if path.is_file())
    print(next((key for key in keys if key.startswith(prefix)), None))


def put_object(arguments: list[str], _: bool) -> None:
    key = option(arguments, "--key")
    if option(arguments, "--if-none-match") == "*" and (OBJECTS / key).exists():
        refuse("PreconditionFailed", "PutObject")
    store(Path(option(arguments, "--body")), key)


def copy(arguments: list[str], amid: bool) -> None:
    if amid:
        kill()  # a multipart upload that is not completed leaves no object
    store(
        Path(arguments[2]),
        key_of(arguments[3]),
        option(arguments, "--metadata") if "--metadata" in arguments else "",
    )


def sync(arguments: list[str], amid: bool) -> None:
    source, target = arguments[2:4]
    down = source.startswith("s3://")
    folder = OBJECTS / key_of(source) if down else Path(source)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for index, path in enumerate(files):
        if amid and index == len(files) // 2:
            kill()
        relative = path.relative_to(folder)
        if down:
            (Path(target) / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, Path(target) / relative)
        else:
            store(path, key_of(target) + relative.as_posix())


def secret(_: list[str], __: bool) -> None:
    print(os.environ["FAKE_SECRET"])


COMMANDS = {
    ("s3api", "get-object"): get_object,
    ("s3api", "head-object"): head_object,
    ("s3api", "list-objects-v2"): list_objects,
    ("s3api", "put-object"): put_object,
    ("s3", "cp"): copy,
    ("s3", "sync"): sync,
    ("secretsmanager", "get-secret-value"): secret,
}


def main() -> None:
    ROOT.mkdir(parents=True, exist_ok=True)
    log = ROOT / "calls.log"
    calls = log.read_text().count("\n") if log.exists() else 0
    with log.open("a") as lines:
        lines.write(" ".join(sys.argv[1:]) + "\n")
    wanted = os.environ.get("KILL_AT", "")
    here = wanted.rstrip("+~") == str(calls + 1)
    if "REFUSE" in os.environ and os.environ["REFUSE"] in " ".join(sys.argv[1:]):
        refuse("AccessDenied", "Any")
    if here and wanted[-1].isdigit():
        kill()
    COMMANDS[sys.argv[1], sys.argv[2]](sys.argv[1:], here and wanted.endswith("~"))
    if here and wanted.endswith("+"):
        kill()


main()
