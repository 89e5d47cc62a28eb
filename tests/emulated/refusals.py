"""The stand-in for the handlers' commands, with objects that it refuses."""

from __future__ import annotations

import json
from pathlib import Path

from specdec.rehearsal.emulator import recorder
from specdec.rehearsal.emulator.cluster import Call

REFUSALS = "refusals.json"
"""Beside the file of calls: ``{"<kind>/<name>": "<message>"}``."""


def main(file: Path, tool: str, arguments: tuple[str, ...]) -> int:
    """As the recorder's own, but for the objects in the file of refusals."""
    return recorder.main(file, tool, arguments, objection=lambda call: _refused(file, call))


def _refused(file: Path, call: Call) -> str | None:
    planted = file.with_name(REFUSALS)
    if call.verb not in ("create", "apply") or not planted.exists():
        return None
    messages: dict[str, str] = json.loads(planted.read_text(encoding="utf-8"))
    names = [f"{manifest['kind']}/{manifest['metadata']['name']}" for manifest in call.objects]
    return next((messages[name] for name in names if name in messages), None)
