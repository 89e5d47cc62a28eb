"""Servers that are already running: named by their addresses, and neither started nor stopped."""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from specdec.errors import BadInputError, EnvironmentFault, Mistake
from specdec.rehearsal.engines import Progress, Service

if TYPE_CHECKING:
    from specdec.experiment.fields import Variant


class Endpoints:
    """OpenAI-compatible servers by address.

    Args:
        urls: base URL by variant name.

    Raises:
        BadInputError: a URL that is none.
    """

    name = "endpoints"
    limits: tuple[str, ...] = (
        "The servers were started by someone else: that they differ in the draft only is theirs to say.",
    )

    def __init__(self, urls: Mapping[str, str]) -> None:
        mistakes = [
            Mistake(f"{variant} URL", url, "is not the address of an HTTP server", "Use http://host:port")
            for variant, url in urls.items()
            if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname
        ]
        if mistakes:
            raise BadInputError("rehearse", mistakes)
        self._urls = {variant: url.rstrip("/").removesuffix("/v1") for variant, url in urls.items()}

    def check(self) -> None:
        """See ``Engine``."""
        for variant, url in self._urls.items():
            place = urlsplit(url)
            kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
            connection = kind(place.hostname or "", place.port, timeout=10)
            try:
                connection.request("GET", f"{place.path}/v1/models")
                status = connection.getresponse().status
            except (OSError, http.client.HTTPException) as error:
                raise EnvironmentFault(
                    f"{variant}: no server at {url}: {error}", remedy="Start it, or correct the URL"
                ) from None
            finally:
                connection.close()
            if status != http.client.OK:
                raise EnvironmentFault(
                    f"{variant}: {url} answers GET /v1/models with HTTP {status}",
                    remedy="Name an OpenAI-compatible server",
                )

    def prepare(self, on_progress: Progress) -> None:
        """See ``Engine``."""

    def start(self, variants: Sequence[Variant], logs: Path, on_progress: Progress) -> tuple[Service, ...]:
        """See ``Engine``."""
        return tuple(
            Service(
                variant=variant.name,
                url=self._urls[variant.name],
                mode=variant.mode,
                draft=variant.draft,
                window=variant.window,
            )
            for variant in variants
            if variant.name in self._urls
        )

    def watch(self) -> None:
        """See ``Engine``."""

    def facts(self) -> dict[str, Any]:
        """See ``Engine``."""
        return {"name": self.name, "urls": dict(self._urls)}

    def stop(self) -> None:
        """See ``Engine``."""
