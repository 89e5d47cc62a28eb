"""The API of the cluster that this pod runs in, as its service account may use it."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.errors import EnvironmentFault

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts token, authority and namespace of a pod's service account."""

_CALL_SECONDS = 10.0
_AGAIN = (401, 409, 429)
"""Refusals that another attempt may not meet: a token that is being renewed, a conflict, too many calls."""


@dataclass(frozen=True, slots=True)
class ClusterApi:
    """A client of the API.

    Attributes:
        url: base URL.
        namespace: of the pod.
        token: file with the bearer token, which the kubelet renews.
        authority: file with the certificate of the API's authority; None for the system's.
        pause: seconds before the second attempt of a call, twice as many before each further one.
    """

    url: str
    namespace: str
    token: Path
    authority: Path | None
    pause: float = 1.0

    @classmethod
    def of(cls, environment: Mapping[str, str], account: Path = ACCOUNT) -> ClusterApi:
        """From what Kubernetes gives to a pod.

        Raises:
            EnvironmentFault: this is no pod, or one without a token.
        """
        host, token = environment.get("KUBERNETES_SERVICE_HOST"), account / "token"
        if host is None or not token.is_file():
            missing = "KUBERNETES_SERVICE_HOST is not set" if host is None else f"no token at {token}"
            raise EnvironmentFault(
                f"the cluster's API cannot be asked: {missing}",
                remedy="Start the Job as it is deployed, with its service account's token mounted",
            )
        host = f"[{host}]" if ":" in host else host
        return cls(
            url=f"https://{host}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}",
            namespace=(account / "namespace").read_text(encoding="utf-8").strip(),
            token=token,
            authority=account / "ca.crt",
        )

    def call(
        self, path: str, *, method: str = "GET", body: Mapping[str, Any] | None = None, attempts: int = 2
    ) -> dict[str, Any]:
        """What the API answers.

        Args:
            path: below the base URL, with the query.
            method: of HTTP.
            body: of a PATCH, as a merge patch.
            attempts: how often it is asked; a refusal that will stay is not asked again.

        Raises:
            EnvironmentFault: the API cannot be asked, or refuses.
        """
        context = ssl.create_default_context(cafile=self.authority) if self.url.startswith("https:") else None
        problem = ""
        for attempt in range(attempts):
            if attempt:
                time.sleep(self.pause * 2.0 ** (attempt - 1))
            request = urllib.request.Request(  # noqa: S310 (the cluster's own API)
                self.url + path,
                data=None if body is None else json.dumps(body, allow_nan=False).encode(),
                headers={
                    "Authorization": f"Bearer {self.token.read_text(encoding='utf-8').strip()}",
                    "Content-Type": "application/merge-patch+json",
                },
                method=method,
            )
            try:
                with urllib.request.urlopen(request, timeout=_CALL_SECONDS, context=context) as answer:  # noqa: S310
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                problem = f"HTTP {error.code}: {_message(error)}"
                if error.code < 500 and error.code not in _AGAIN:
                    break
            except (urllib.error.URLError, OSError, ValueError) as error:
                problem = str(getattr(error, "reason", error))
        raise EnvironmentFault(
            f"{method} {self.url}{path}: {problem}",
            remedy="Look at the Role of the benchmark's service account and at the network policy"
            " benchmark-egress",
        )


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)
