"""What the emulator is taught for tests: what AWS offers the account, and a node group's new size. Runs in
the emulator's process.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

from specdec.rehearsal.emulator.server import Answer, Request
from tests.emulated import offers
from tests.emulated.node_groups import resized

OFFERS = "offers.json"
"""In the account's folder: what each region offers, read at each call; absent where nothing was planted."""
_RESIZE = re.compile(r"/clusters/([^/]+)/node-groups/([^/]+)/update-config")


def answer(request: Request, region: str, folder: Path) -> Answer | None:
    """The answer to a call that ministack 1.5.33 does not know; None leaves it to ministack."""
    group = _RESIZE.fullmatch(request.path)
    if group and request.service == "eks" and request.method == "POST":
        return _resize(f"{group[1]}/{group[2]}", request.body)
    planted = folder / OFFERS
    if request.service not in offers.ASKED or not planted.exists():
        return None
    offered = {
        name: offers.Offer.of(offer)
        for name, offer in json.loads(planted.read_text(encoding="utf-8")).items()
    }
    return offers.answer(request, offered, region=region)


def _resize(key: str, body: bytes) -> Answer:
    groups: Any = importlib.import_module("ministack.services.eks")._nodegroups
    status, answered, changes = resized(groups.get(key), json.loads(body))
    if changes:
        groups[key].update(changes)
    return status, {"Content-Type": "application/json"}, json.dumps(answered).encode()
