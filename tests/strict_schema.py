"""Kubernetes' own schemas, strict: an unknown field is an error, as it is for the API server."""

from __future__ import annotations

import functools
from typing import Any

import kubernetes_validate
from kubernetes_validate import utils

VERSIONS = ("1.34", "1.35", "1.36")

# It reads a version's definitions again for every object: nine tenths of its time.
utils.schema_contents = functools.cache(utils.schema_contents)


def require_valid(item: dict[str, Any]) -> None:
    """Checks an object against every version.

    Raises:
        kubernetes_validate.ValidationError: it does not fit.
        kubernetes_validate.utils.SchemaNotFoundError: there is no schema, so that nothing could be checked.
    """
    for version in VERSIONS:
        used = kubernetes_validate.validate(item, version, strict=True)
        assert used == version, f"checked with {used} in place of {version}"
