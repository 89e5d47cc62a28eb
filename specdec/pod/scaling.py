"""Serves one variant at a time: scales the variants' Deployments through the cluster's own API.

The token is that of the pod's service account, which may do this and nothing else
(``charts/phase_access.py``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specdec.errors import EnvironmentFault
from specdec.pod.api import ClusterApi

_ATTEMPTS = 6
_POLL_SECONDS = 5.0

Ready = Callable[[str], "str | None"]
"""Tells of a base URL why it does not serve yet; None if it does."""


@dataclass(frozen=True, slots=True)
class Deployments:
    """Replicas of the pod's namespace.

    Attributes:
        api: see ``ClusterApi``.
    """

    api: ClusterApi

    def replicas(self, name: str) -> tuple[int, int]:
        """Replicas that a Deployment is to have, and that it has.

        Raises:
            EnvironmentFault: the API cannot be asked, or refuses.
        """
        scale = self._call(name)
        return int(scale["spec"].get("replicas", 0)), int(scale["status"].get("replicas", 0))

    def scale(self, name: str, replicas: int) -> None:
        """Sets the replicas of a Deployment.

        Raises:
            EnvironmentFault: the API cannot be asked, or refuses.
        """
        self._call(name, method="PATCH", body={"spec": {"replicas": replicas}})

    def _call(self, name: str, **request: Any) -> dict[str, Any]:
        path = f"/apis/apps/v1/namespaces/{self.api.namespace}/deployments/{name}/scale"
        try:
            return self.api.call(path, attempts=_ATTEMPTS, **request)
        except EnvironmentFault as fault:
            raise EnvironmentFault(
                f"Deployment {name} cannot be scaled: {fault}",
                remedy="Deploy the stack with schedule sequential; look at the Role benchmark-phases and at"
                " the network policy benchmark-egress",
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Has one variant served and no other.

    Attributes:
        there: see ``Deployments``.
        deployments: name of each variant's Deployment.
        services: base URL of each variant.
        ready: see ``Ready``.
        seconds: that a server may take to get ready.
        leave_seconds: after which a server that was told to end is gone for sure: the pod's termination grace
            period. On a node with room for two, it would otherwise share the host with the next one.
        say: told what happens.
        poll: seconds between two looks.
    """

    there: Deployments
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
        await asyncio.to_thread(self.there.scale, self.deployments[variant], 1)
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
            wanted, there = await asyncio.to_thread(self.there.replicas, name)
            if wanted:
                await asyncio.to_thread(self.there.scale, name, 0)
            if wanted or there:
                ended = time.monotonic()
        for name in others:
            while (await asyncio.to_thread(self.there.replicas, name))[1]:
                await asyncio.sleep(self.poll)
        return ended
