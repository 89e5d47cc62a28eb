"""JSON over HTTP to a server whose texts are followed."""

from __future__ import annotations

import json
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, cast
from urllib.parse import urlsplit

from specdec.errors import EnvironmentFault
from specdec.text import shortened


class Api:
    """One server.

    Args:
        url: base URL, with or without ``/v1``.
        headers: sent with every request, e.g. Authorization.
        timeout: seconds without a byte.
        tls: which certificates are trusted; the usual ones by default.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        self.url = url
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._path = parts.path.rstrip("/").removesuffix("/v1")
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._timeout = timeout
        self._tls = tls

    @contextmanager
    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None) -> Generator[HTTPResponse]:
        connection = (
            HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
            if self._secure
            else HTTPConnection(self._host, self._port, timeout=self._timeout)
        )
        try:
            payload = None if body is None else json.dumps(body, allow_nan=False).encode()
            connection.request(method, self._path + path, payload, self._headers)
            yield connection.getresponse()
        except (OSError, HTTPException) as error:
            raise EnvironmentFault(
                f"no answer from {self.url}: {error}", remedy="Start the server, or correct the URL"
            ) from None
        finally:
            connection.close()

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """The parsed answer; None where the server has no such route, or refuses the body.

        Raises:
            EnvironmentFault: no server there.
        """
        with self._answer(method, path, body) as answer:
            content = answer.read()
            if answer.status != 200:
                return None
        try:
            parsed: Any = json.loads(content)
        except (ValueError, RecursionError):
            return None
        return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else None

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Events of a streamed answer, until it ends or the iterator is closed, which ends the request.

        Raises:
            EnvironmentFault: no server there, or it refuses the request.
        """
        with self._answer("POST", path, body) as answer:
            if answer.status != 200:
                said = answer.read(300).decode(errors="replace")
                raise EnvironmentFault(
                    f"{self.url} answers POST {path} with HTTP {answer.status}: {said}",
                    remedy="Name another server to follow the texts on",
                )
            for line in answer:
                if line.startswith(b"data:") and b"[DONE]" not in line:
                    try:
                        event: Any = json.loads(line[5:])
                    except (ValueError, RecursionError):
                        raise EnvironmentFault(
                            f"{self.url} streams an event that is not JSON: {shortened(repr(line), 80)}",
                            remedy="Name another server to follow the texts on",
                        ) from None
                    if isinstance(event, dict):
                        yield cast("dict[str, Any]", event)
