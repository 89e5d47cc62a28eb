"""Where a target is, and how far its certificate is trusted."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from specdec.errors import BadInputError, Mistake

_ROUTES = ("/chat/completions", "/completions")
_VERSION = re.compile(r"/v\d+$")
_SAFE = "/%:@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a URL points.

    Attributes:
        host: name or address.
        port: TCP port.
        tls: whether to encrypt.
        base: path that ``/chat/completions`` and ``/models`` stand below.
        query: of the URL with its question mark, sent with every request below ``base``; or empty.
    """

    host: str
    port: int
    tls: bool
    base: str
    query: str = ""

    @classmethod
    def of(cls, url: str) -> Endpoint:
        """Reads a URL: the full one of a route, a base that ends in ``/v1`` or alike, or what stands before
        ``/v1``.

        Raises:
            ValueError: not an http or https URL with a host, or one with a user name or fragment.
        """
        wrong = ValueError("not an http:// or https:// URL with a host")
        try:
            parts = urlsplit(url)
            port = parts.port
            host = (parts.hostname or "").encode("idna").decode("ascii")
        except ValueError:
            raise wrong from None
        if parts.scheme not in ("http", "https") or not re.fullmatch(r"[a-z0-9_.:%-]+", host) or port == 0:
            raise wrong
        if parts.username is not None or parts.password is not None:
            raise ValueError("a URL with a user name or password, which is not sent")
        if parts.fragment:
            raise ValueError("a URL with a fragment, which is not sent")
        path = quote(parts.path.rstrip("/"), safe=_SAFE)
        route = next((route for route in _ROUTES if path.endswith(route)), "")
        base = path.removesuffix(route)
        if not route and not _VERSION.search(base):
            base += "/v1"
        query = f"?{quote(parts.query, safe=_SAFE + '?')}" if parts.query else ""
        tls = parts.scheme == "https"
        return cls(host, port or (443 if tls else 80), tls, base, query)

    def below_base(self, route: str) -> str:
        """Path and query of a route such as ``/models``."""
        return f"{self.base}{route}{self.query}"

    def of_server(self, page: str) -> str:
        """Path of a page of the server itself, such as ``/metrics``."""
        return f"{_VERSION.sub('', self.base)}{page}"

    @property
    def authority(self) -> str:
        """Value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def tls_context(authorities: Path | None, *, insecure: bool) -> ssl.SSLContext:
    """Which certificates are trusted.

    Args:
        authorities: PEM file of further authorities.
        insecure: trust any certificate.

    Raises:
        BadInputError: the file cannot be read, or holds no certificate.
    """
    context = ssl.create_default_context()
    if authorities is not None:
        try:
            context.load_verify_locations(cafile=authorities)
        except OSError as error:
            problem = f"contains no readable certificate: {error.strerror or error}"
            mistake = Mistake("--cacert", str(authorities), problem, "Name a PEM file")
            raise BadInputError("command line", [mistake]) from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
