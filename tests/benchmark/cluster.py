"""A cluster of golden servers: its API scales them, as Kubernetes scales Deployments, and tells of their pods
and nodes. Each server that is started is on a node of its own, with a kernel of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from specdec.golden.server import GoldenServer
from specdec.golden.settings import Settings
from specdec.pod.api import ClusterApi
from tests.web import Quiet, running

TOKEN = "a-token"


class Cluster:
    """Deployments that are golden servers.

    Args:
        settings: behaviour of a Deployment's server by its name and the number of starts before it, of all
            servers; None for one that never comes up.

    Attributes:
        urls: base URL by Deployment.
        starts: Deployments in the order in which they were started.
        together: most servers that were up at once.
        refusals: status codes with which the next calls are refused.
        bodies: what was patched, in order.
    """

    def __init__(self, names: list[str], settings: Callable[[str, int], Settings | None]) -> None:
        self._settings = settings
        self._ports = {name: _free_port() for name in names}
        self._servers: dict[str, GoldenServer | None] = {}
        self.urls = {name: f"http://127.0.0.1:{port}" for name, port in self._ports.items()}
        self.starts: list[str] = []
        self._nodes: dict[str, str] = {}
        self.together = 0
        self.refusals: list[int] = []
        self.bodies: list[tuple[str, Any]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._open = ExitStack()
        self._url = self._open.enter_context(running(self._handler()))

    def api(self, folder: Path) -> ClusterApi:
        """The product's client of it."""
        (folder / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
        return ClusterApi(self._url, "specdec", folder / "token", None, pause=0.01)

    def scale(self, name: str, replicas: int) -> None:
        """As a person or a controller would."""
        if replicas and name not in self._servers:
            settings = self._settings(name, len(self.starts))
            self._nodes[name] = f"node-{len(self.starts)}"
            self.starts.append(name)
            self._servers[name] = None
            if settings is not None:
                server = self._servers[name] = GoldenServer(settings)
                self._await(server.start(self._ports[name]))
            self.together = max(self.together, len(self._servers))
        elif not replicas and name in self._servers:
            server = self._servers.pop(name)
            if server is not None:
                self._await(server.stop())

    def up(self) -> list[str]:
        """Deployments with a replica."""
        return list(self._servers)

    def told(self, path: str) -> dict[str, Any] | None:
        """What the API tells of a path that is no scale."""
        if pods := re.fullmatch(r"/api/v1/namespaces/specdec/pods\?labelSelector=.*name%3D([a-z-]+)", path):
            name = pods[1]
            return {"items": [_pod(self._nodes[name])] if self._servers.get(name) else []}
        if node := re.fullmatch(r"/api/v1/nodes/node-(\d+)", path):
            versions = {"containerRuntimeVersion": "c", "kubeletVersion": "v1.35", "osImage": "Linux"}
            return {
                "metadata": {"labels": {"node.kubernetes.io/instance-type": "trn2.3xlarge"}},
                "status": {"nodeInfo": {**versions, "kernelVersion": f"6.12.{node[1]}"}},
            }
        return None

    def close(self) -> None:
        """Ends everything."""
        for name in self.up():
            self.scale(name, 0)
        self._open.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _await(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _handler(self) -> type[Quiet]:
        cluster = self

        class Handler(Quiet):
            def do_GET(self) -> None:
                self._answered(lambda name, _: name)

            def do_PATCH(self) -> None:
                def scaled(name: str, body: Any) -> None:
                    assert self.headers["Content-Type"] == "application/merge-patch+json"
                    cluster.bodies.append((name, body))
                    cluster.scale(name, body["spec"]["replicas"])

                self._answered(scaled)

            def _answered(self, act: Callable[[str, Any], object]) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                body = json.loads(self.rfile.read(length)) if length else None
                path = r"/apis/apps/v1/namespaces/specdec/deployments/([a-z-]+)/scale"
                scaled, told = re.fullmatch(path, self.path), cluster.told(self.path)
                status = 200
                if self.headers["Authorization"] != f"Bearer {TOKEN}":
                    status = 401
                elif cluster.refusals:
                    status = cluster.refusals.pop(0)
                elif scaled is not None and scaled[1] in cluster.urls:
                    act(scaled[1], body)
                    there = int(scaled[1] in cluster.up())
                    told = {"kind": "Scale", "spec": {"replicas": there}, "status": {"replicas": there}}
                elif told is None:
                    status = 404
                answer = told if status == 200 else {"kind": "Status", "message": f"golden: {status}"}
                self.reply(status, json.dumps(answer).encode())

        return Handler


def _pod(node: str) -> dict[str, Any]:
    return {
        "metadata": {},
        "spec": {"nodeName": node},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "server", "imageID": "vllm@sha256:a"}],
            "initContainerStatuses": [
                {"name": "versions", "state": {"terminated": {"message": '{"driver": "2.27"}'}}}
            ],
        },
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
