"""Serves one variant at a time: scales the variants' Deployments through the cluster's own API.

The token is that of the pod's service account, which may do this and nothing else
(``charts/phase_access.py``).
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.errors import EnvironmentFault

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts token, authority and namespace of a pod's service account."""

_ATTEMPTS = 6
_CALL_SECONDS = 10
_POLL_SECONDS = 5.0

Ready = Callable[[str], "str | None"]
"""Tells of a base URL why it does not serve yet; None if it does."""


@dataclass(frozen=True, slots=True)
class ClusterApi:
    """The API of the cluster that this pod runs in.

    Attributes:
        url: base URL.
        namespace: of the Deployments.
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
            EnvironmentFault: the pod has no token.
        """
        token = account / "token"
        if not token.is_file():
            raise EnvironmentFault(
                f"there is no service account token at {token}, and schedule is sequential",
                remedy="Start the Job as it is deployed, with its token mounted",
            )
        host = environment["KUBERNETES_SERVICE_HOST"]
        host = f"[{host}]" if ":" in host else host
        return cls(
            url=f"https://{host}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}",
            namespace=(account / "namespace").read_text(encoding="utf-8").strip(),
            token=token,
            authority=account / "ca.crt",
        )

    def replicas(self, deployment: str) -> tuple[int, int]:
        """Replicas that a Deployment is to have, and that it has.

        Raises:
            EnvironmentFault: the API cannot be asked, or refuses.
        """
        scale = self._call("GET", deployment)
        return int(scale["spec"].get("replicas", 0)), int(scale["status"].get("replicas", 0))

    def scale(self, deployment: str, replicas: int) -> None:
        """Sets the replicas of a Deployment.

        Raises:
            EnvironmentFault: the API cannot be asked, or refuses.
        """
        self._call("PATCH", deployment, {"spec": {"replicas": replicas}})

    def _call(self, method: str, deployment: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{deployment}/scale"
        context = ssl.create_default_context(cafile=self.authority) if self.url.startswith("https:") else None
        problem = ""
        for attempt in range(_ATTEMPTS):
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
                if error.code < 500 and error.code not in (401, 409, 429):
                    break
            except (urllib.error.URLError, OSError, ValueError) as error:
                problem = str(getattr(error, "reason", error))
        raise EnvironmentFault(
            f"Deployment {deployment} cannot be scaled: {method} {self.url}{path}: {problem}",
            remedy="Deploy the stack with schedule sequential; look at the Role benchmark-phases and at the"
            " network policy benchmark-egress",
        )


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Has one variant served and no other.

    Attributes:
        api: see ``ClusterApi``.
        deployments: name of each variant's Deployment.
        services: base URL of each variant.
        ready: see ``Ready``.
        seconds: that a server may take to get ready.
        leave_seconds: after which a server that was told to end is gone for sure: the pod's termination grace
            period. On a node with room for two, it would otherwise share the host with the next one.
        say: told what happens.
        poll: seconds between two looks.
    """

    api: ClusterApi
    deployments: Mapping[str, str]
    services: Mapping[str, str]
    ready: Ready
    seconds: float
    leave_seconds: float
    say: Callable[[str], None]
    poll: float = _POLL_SECONDS

    async def serve(self, variant: str, *, patiently: bool = False) -> None:
        """Returns once ``variant`` answers and every other one is gone.

        Args:
            variant: name.
            patiently: wait for the server however long it takes: there may be no nodes yet, and a pod that
                waits costs nothing.

        Raises:
            EnvironmentFault: the API refuses, or the server does not get ready in time.
        """
        ended = await self._end_others(variant)
        url, started = self.services[variant], time.monotonic()
        await asyncio.to_thread(self.api.scale, self.deployments[variant], 1)
        said = ""
        while (problem := await asyncio.to_thread(self.ready, url)) is not None:
            if not patiently and time.monotonic() - started > self.seconds:
                raise EnvironmentFault(
                    f"{variant} at {url} is not ready {self.seconds:.0f} s after it was started for its"
                    f" phase: {problem}",
                    remedy=f"Look at the pods and logs of Deployment {self.deployments[variant]}; the"
                    " accelerator nodes are still up, and paid: specdec nodes down",
                )
            if problem != said:
                self.say(f"waiting for {variant}: {problem}")
                said = problem
            await asyncio.sleep(self.poll)
        await asyncio.sleep(max(0.0, ended + self.leave_seconds - time.monotonic()))
        self.say(f"{variant} is ready, alone")

    async def _end_others(self, variant: str) -> float:
        """Scales every other variant to 0, and returns when that was, as ``time.monotonic`` tells it."""
        ended = float("-inf")
        others = [name for other, name in self.deployments.items() if other != variant]
        for name in others:
            wanted, there = await asyncio.to_thread(self.api.replicas, name)
            if wanted:
                await asyncio.to_thread(self.api.scale, name, 0)
            if wanted or there:
                ended = time.monotonic()
        for name in others:
            while (await asyncio.to_thread(self.api.replicas, name))[1]:
                await asyncio.sleep(self.poll)
        return ended
