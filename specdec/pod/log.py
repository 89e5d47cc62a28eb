"""The pod's log."""

from __future__ import annotations

from datetime import UTC, datetime


def say(message: str) -> None:
    """One line with the time, for the pod's log."""
    print(f"{datetime.now(UTC):%H:%M:%S} {message}", flush=True)
