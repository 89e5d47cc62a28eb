"""A cluster of golden servers: its API scales them, as Kubernetes scales Deployments."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from specdec.golden.server import GoldenServer
from specdec.golden.settings import Settings
from specdec.pod.scaling import ClusterApi

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
        self.together = 0
        self.refusals: list[int] = []
        self.bodies: list[tuple[str, Any]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._api = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._api.serve_forever).start()

    def api(self, folder: Path) -> ClusterApi:
        """The product's client of it."""
        (folder / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
        url = f"http://127.0.0.1:{self._api.server_port}"
        return ClusterApi(url, "specdec", folder / "token", None, pause=0.01)

    def scale(self, name: str, replicas: int) -> None:
        """As a person or a controller would."""
        if replicas and name not in self._servers:
            settings = self._settings(name, len(self.starts))
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

    def close(self) -> None:
        """Ends everything."""
        for name in self.up():
            self.scale(name, 0)
        self._api.shutdown()
        self._api.server_close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _await(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        cluster = self

        class Handler(BaseHTTPRequestHandler):
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
                found = re.fullmatch(path, self.path)
                status = 200
                if self.headers["Authorization"] != f"Bearer {TOKEN}":
                    status = 401
                elif cluster.refusals:
                    status = cluster.refusals.pop(0)
                elif found is None or found[1] not in cluster.urls:
                    status = 404
                answer: dict[str, Any] = {"kind": "Status", "message": f"golden: {status}"}
                if status == 200 and found is not None:
                    act(found[1], body)
                    there = int(found[1] in cluster.up())
                    answer = {"kind": "Scale", "spec": {"replicas": there}, "status": {"replicas": there}}
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                """Nothing."""

        return Handler


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
