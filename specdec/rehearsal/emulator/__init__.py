"""AWS embedded in this machine: an emulator in a child process, reached at 127.0.0.1 only."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specdec.rehearsal.emulator.embedded import ACCOUNT, CHECKOUT, EmbeddedAws, Session

__all__ = ["ACCOUNT", "CHECKOUT", "EmbeddedAws", "Session"]


def __getattr__(name: str) -> Any:
    # On demand: the stand-in for kubectl lives in this package too and starts dozens of times in one
    # deployment.
    if name in __all__:
        return getattr(importlib.import_module("specdec.rehearsal.emulator.embedded"), name)
    raise AttributeError(name)
