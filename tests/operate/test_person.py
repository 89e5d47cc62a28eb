"""What a person has to be allowed, by command: the page's table against the calls in the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "platform-team.md"
SERVICES = {"service-quotas": "servicequotas", "resourcegroupstaggingapi": "tag"}
VARIABLES = ("ec2", "eks", "iam", "kms", "s3", "sts", "cloudformation", "cloudwatch")
"""Variables that are named after the service of the client that they hold."""

CLIENTS = {"capacity.py": "service-quotas", "copying.py": "s3", "blocks.py": "ec2", "addons.py": "eks"}
"""Module to the service of what it calls ``client``."""
ACTIONS = {
    "s3:HeadObject": ["s3:GetObject"],
    "s3:HeadBucket": ["s3:ListBucket"],
    "s3:ListObjectsV2": ["s3:ListBucket"],
    "s3:ListBuckets": ["s3:ListAllMyBuckets"],
    "s3:DownloadFile": ["s3:GetObject"],
    "s3:CopyObject": ["s3:GetObject", "s3:PutObject"],
    "budgets:DescribeBudget": ["budgets:ViewBudget"],
    "servicequotas:GetAwsDefaultServiceQuota": ["servicequotas:GetAWSDefaultServiceQuota"],
}
"""Where the action's name is not the operation's."""

_PAGES = re.compile(r'pages\(\s*([\w.]+(?:\("[\w-]+"[^()]*\))?),\s*"(\w+)"')
_PAGINATOR = re.compile(r'([\w.]+(?:\("[\w-]+"[^()]*\))?)\.get_paginator\("(\w+)"\)')
_CALL = re.compile(
    r'([\w.]+(?:\("[\w-]+"[^()]*\))?)\.((?:describe|list|get|update|simulate|head|download|copy|filter)_\w+)\b'
)
SOURCES = {
    "check": ["preflight/*.py"],
    "nodes": ["operate/nodes.py", "operate/guard.py", "deployed/markers.py", "runs/bucket.py"],
    "wait": ["operate/progress.py", "operate/kubernetes.py", "runs/bucket.py"],
    "report": ["deployed/stack.py", "deployed/clients.py", "runs/bucket.py"],
    "clone": ["operate/copying.py", "commands/clone.py"],
}
"""Command to the modules whose calls are its own."""


def called(patterns: list[str]) -> Iterator[str]:
    """Every action behind a call in these modules."""
    for path in sorted(path for pattern in patterns for path in (ROOT / "specdec").glob(pattern)):
        text = path.read_text(encoding="utf-8")
        for pattern in (_PAGES, _PAGINATOR, _CALL):
            for client, operation in pattern.findall(text):
                named = re.search(r'clients?\("([\w-]+)"', client)
                variable = client.rpartition(".")[2]
                own = CLIENTS.get(path.name) if variable == "client" else None
                service = named[1] if named else variable if variable in VARIABLES else own
                if service is None or operation == "get_paginator":
                    continue
                action = "".join(word.capitalize() for word in operation.split("_"))
                full = f"{SERVICES.get(service, service)}:{action}"
                yield from ACTIONS.get(full, [full])


def listed() -> dict[str, set[str]]:
    """The table: command to its actions."""
    section = (
        PAGE.read_text(encoding="utf-8").split("## What a person has to be allowed")[1].split("\n## ")[0]
    )
    rows = [line.split("|") for line in section.splitlines() if line.startswith(("| `", "| every "))]
    table: dict[str, set[str]] = {}
    for row in rows:
        for command in re.findall(r"`(\w+)", row[1]) or ["every"]:
            table.setdefault(command, set()).update(re.findall(r"`([a-z0-9]+:\w+)`", " ".join(row[2:])))
    return table


def test_every_action_of_a_command_is_listed() -> None:
    table = listed()
    every = table["every"]
    missing = {
        command: sorted(set(called(patterns)) - table[command] - every)
        for command, patterns in SOURCES.items()
    }
    assert {command: actions for command, actions in missing.items() if actions} == {}


def test_the_calls_are_found() -> None:
    assert len(set(called(SOURCES["check"]))) > 40
    assert "pricing:GetProducts" in set(called(SOURCES["check"]))
    assert {"eks:UpdateNodegroupConfig", "s3:ListBucket"} <= set(called(SOURCES["nodes"]))
    assert "logs:FilterLogEvents" in set(called(SOURCES["wait"]))
