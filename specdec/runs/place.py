"""Whether two addresses are one server."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_BEHIND = re.compile(r"(/v\d+)?(/chat)?(/completions)?/*$")
HERE = ("localhost", "127.0.0.1", "::1")
"""Names of this machine."""


def place(url: str) -> str:
    """The server that a URL leads to, written in one way: with its port, each name of this machine the same,
    and without the route.
    """
    parts = urlsplit(url)
    host = "localhost" if parts.hostname in HERE else parts.hostname
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{host}:{port}{_BEHIND.sub('', parts.path)}"
