"""A change of a node group's size, which the pinned emulator cannot make by API."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any


def resized(
    group: Mapping[str, Any] | None, asked: Mapping[str, Any]
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """What EKS makes of UpdateNodegroupConfig with a new size: status, answer, and what changes in the group.

    Starts or ends no instance: that is Auto Scaling's work, which the emulator does not do either.

    Args:
        group: the group as EKS describes it, None where there is none.
        asked: body of the call.
    """
    if group is None:
        return 404, {"__type": "ResourceNotFoundException", "message": "No node group found"}, {}
    if asked.keys() - {"scalingConfig", "clientRequestToken"}:
        return _refused(f"this emulator changes sizes only, not {', '.join(sorted(asked))}")
    size: dict[str, int] = {**group["scalingConfig"], **asked["scalingConfig"]}
    if not 0 <= size["minSize"] <= size["desiredSize"] <= size["maxSize"] or size["maxSize"] < 1:
        return _refused(f"the sizes must be in order, and the largest 1 at least: {size}")
    named = {"minSize": "MinSize", "maxSize": "MaxSize", "desiredSize": "DesiredSize"}
    update = {
        "id": str(uuid.uuid4()),
        "status": "InProgress",
        "type": "ConfigUpdate",
        "params": [
            {"type": named[name], "value": str(value)} for name, value in asked["scalingConfig"].items()
        ],
        "createdAt": time.time(),
        "errors": [],
    }
    return 200, {"update": update}, {"scalingConfig": size, "modifiedAt": time.time()}


def _refused(message: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    return 400, {"__type": "InvalidParameterException", "message": message}, {}
