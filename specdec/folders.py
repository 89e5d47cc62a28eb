"""Where this product keeps what it can make again."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str]) -> Path:
    """This product's part of the user's cache (XDG base directory specification)."""
    cache = environment.get("XDG_CACHE_HOME") or str(
        Path(environment.get("HOME", tempfile.gettempdir())) / ".cache"
    )
    return Path(cache) / "specdec"
