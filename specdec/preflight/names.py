"""Whether a deployment finds its names free and its stack in a state that can be updated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec.deployed.stack import stack_status
from specdec.preflight.finding import Finding, Scope
from specdec.preflight.leftovers import SERVICE_LOGS, Leftover, find

if TYPE_CHECKING:
    from collections.abc import Iterator


def names(scope: Scope) -> Iterator[Finding]:
    """A deployment fails on a stack it cannot update, and on names that something else holds."""
    status = stack_status(scope.clients, scope.stack)
    yield judge_stack(status, name=scope.stack)
    if status is not None:
        return
    for leftover in find(scope.experiment, scope.region, scope.clients):
        finding = judge_leftover(leftover)
        if finding is not None:
            yield finding


def judge_leftover(found: Leftover) -> Finding | None:
    """Whether remains of an earlier deployment block the next one: only resources with our names do."""
    what = f"{found.kind} {found.name} is left from an earlier deployment"
    if found.kind == "bucket":
        if found.kept is not None and found.kept.startswith("placement"):
            return None
        reuse = (
            f'Set placement.{found.region}.bucket = "{found.name}" to use it, or remove it: {found.remove}'
        )
        return Finding("names", "warning", what, reuse)
    if found.kept is not None:
        return None
    named = found.kind in ("cluster", "dashboard", "budget") or (
        found.kind == "log group" and found.name.startswith(SERVICE_LOGS)
    )
    return Finding("names", "blocker" if named else "warning", what, found.remove)


def judge_stack(status: str | None, *, name: str) -> Finding:
    """Reads a stack's status; None where there is no stack."""
    if status is None:
        return Finding("names", "ok", f"no stack {name} yet")
    if status in (
        "CREATE_FAILED",
        "ROLLBACK_COMPLETE",
        "ROLLBACK_FAILED",
        "DELETE_FAILED",
        "REVIEW_IN_PROGRESS",
    ):
        return Finding(
            "names",
            "blocker",
            f"stack {name} is {status} and cannot be updated",
            f"uv run npx cdk destroy {name}",
        )
    if status == "UPDATE_ROLLBACK_FAILED":
        return Finding(
            "names",
            "blocker",
            f"stack {name} is {status}",
            f"aws cloudformation continue-update-rollback --stack-name {name}",
        )
    if status.endswith("_IN_PROGRESS"):
        return Finding(
            "names",
            "blocker",
            f"stack {name} is {status}",
            f"Wait: aws cloudformation wait stack-update-complete --stack-name {name}",
        )
    return Finding("names", "ok", f"stack {name} is {status}; deploying updates it")
