"""Small servers for tests: in threads of this process, on loopback, gone when their context ends."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Quiet(BaseHTTPRequestHandler):
    """Prints nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Nothing."""

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """One answer with its length."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def running(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    """A server that answers as ``handler`` does: its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        # Asked to end, it looks up only so often.
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
