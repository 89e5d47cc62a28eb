"""Stand-in for ``aws``, ``kubectl`` and ``helm`` under the CDK's own handlers: keeps what it is told in a
file.

It answers as the tool would to a cluster that takes everything valid: an object that exists cannot be created
again, and a command it does not know fails.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specdec.rehearsal.emulator.cluster import Call, Cluster, Manifest, read, split


def _named(arguments: tuple[str, ...], flag: str) -> str:
    name = arguments[arguments.index(flag) + 1] if flag in arguments else None
    return Path(name).read_text(encoding="utf-8") if name else ""


def answer(call: Call) -> tuple[int, str]:
    """What the tool would do besides changing the cluster: exit code and output."""
    arguments = call.arguments
    match call.tool, arguments[:2]:
        case "aws", ("eks", "update-kubeconfig"):
            Path(arguments[arguments.index("--kubeconfig") + 1]).write_text("{}", encoding="utf-8")
            return 0, "Added new context"
        case "aws", ("ecr-public" | "ecr", "get-login-password"):
            return 0, "password"
        case "helm", ("registry", "login"):
            return 0, "Login Succeeded"
        case "helm", ("pull", chart):
            if "--version" not in arguments:
                return 1, "Error: a chart from a registry needs a version"
            Path(chart.rpartition("/")[2]).mkdir(parents=True, exist_ok=True)
            return 0, f"Pulled: {chart}:{call.flag('--version')}"
        case "helm", ("upgrade" | "uninstall", release):
            return 0, f"release {release}"
        case "kubectl", ("create" | "apply" | "delete", _):
            return 0, "\n".join(
                f"{manifest['kind']}/{manifest['metadata']['name']}" for manifest in call.objects
            )
        case _:
            return 1, f"the stand-in for {call.tool} does not know: {' '.join(arguments)}"


def main(
    file: Path,
    tool: str,
    arguments: tuple[str, ...],
    *,
    objection: Callable[[Call], str | None] = lambda _: None,
) -> int:
    """Records one call in a file and answers it. Calls of one file are taken one at a time.

    Args:
        file: where calls are kept.
        tool: the command.
        arguments: of the command.
        objection: what else stands against a call, in the words of the API server.
    """
    region = os.environ.get("AWS_REGION", "")
    if "--password-stdin" in arguments:
        # Before the lock: the other end of this pipe is a stand-in too, and may be waiting for it.
        sys.stdin.read()
    objects: list[Manifest] = split(_named(arguments, "-f")) if tool == "kubectl" else []
    values: dict[str, Any] = json.loads(_named(arguments, "--values") or "{}") if tool == "helm" else {}
    with file.open("a+", encoding="utf-8") as record:
        fcntl.flock(record, fcntl.LOCK_EX)
        record.seek(0)
        before = [call for call in read(record) if call.region == region]
        # The handler logs in to one cluster per stack and then runs one command; so the region tells the
        # cluster.
        call = Call(region, tool, arguments, tuple(objects), values)
        refused = Cluster(before).refusal(call) or objection(call)
        exit_code, output = (1, refused) if refused else answer(call)
        record.write(Call(region, tool, arguments, tuple(objects), values, exit_code).line() + "\n")
    print(output, file=sys.stderr if exit_code else sys.stdout)
    return exit_code
