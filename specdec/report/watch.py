"""The report of a run in progress: a page on 127.0.0.1 that follows the records."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

from specdec.analysis.judge import judge
from specdec.errors import BadInputError, EnvironmentFault
from specdec.report import html
from specdec.report.build import build
from specdec.runs.folder import Run, read_run
from specdec.runs.manifest import MANIFEST
from specdec.runs.record import EXACT, RECORDS
from specdec.runs.unfinished import read_unfinished

HOST = "127.0.0.1"
EVERY = 2.0
"""Seconds between two looks of the browser; more where judging takes long, so that the measurement, which may
share this machine, keeps at least nine tenths of one core."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Page:
    """What the browser is shown.

    Attributes:
        body: the page.
        finished: whether it will not change any more.
        seconds: until the browser is to ask again.
    """

    body: bytes
    finished: bool
    seconds: float


class Watched:
    """A run folder, judged anew when its records have grown."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: object = None
        self._page = Page(b"", finished=False, seconds=EVERY)
        self._lock = Lock()

    def page(self) -> Page:
        """The report as of now: medians and no verdict until the run has ended."""
        with self._lock:
            state = self._state()
            if state != self._seen:
                started = time.thread_time()
                finished = (self._folder / MANIFEST).exists()
                body = _finished(self._folder) if finished else _so_far(self._folder)
                wait = max(EVERY, 10 * (time.thread_time() - started))
                self._page, self._seen = Page(body.encode(), finished, wait), state
            return self._page

    def _state(self) -> object:
        records = self._folder / RECORDS
        return records.stat().st_size if records.exists() else 0, (self._folder / MANIFEST).exists()


@contextmanager
def serving(folder: Path, port: int = 0) -> Generator[str]:
    """Serves the page of a run folder until the block ends.

    Args:
        folder: of the run; may still be empty.
        port: on 127.0.0.1; 0 takes a free one.

    Yields:
        The address to open.

    Raises:
        EnvironmentFault: the port is taken.
    """
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(Watched(folder).page))
    except OSError as error:
        raise EnvironmentFault(
            f"Port {port} of {HOST} cannot be used: {error.strerror}",
            remedy="Name another one with --port, or leave it out for a free one",
        ) from None
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(page: Callable[[], Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET / and nothing else, and only a browser that means this address."""

        timeout = 10

        def do_GET(self) -> None:
            """The page as of now; the browser is told to ask again while the run goes on."""
            name = self.headers.get("Host", "").rpartition(":")[0]
            # A page of another site could point its own name at this address (DNS rebinding).
            if name not in (HOST, "localhost"):
                self.send_error(HTTPStatus.FORBIDDEN, "Open it as 127.0.0.1")
                return
            if self.path != "/":
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            shown = page()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(shown.body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", _POLICY)
            if not shown.finished:
                self.send_header("Refresh", f"{shown.seconds:.0f}")
            self.end_headers()
            self.wfile.write(shown.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Requests of one's own browser are no news."""

    return Handler


def _finished(folder: Path) -> str:
    try:
        return _rendered(read_run(folder), "")
    except BadInputError as error:
        return _waiting(str(error))


def _so_far(folder: Path) -> str:
    try:
        run = read_unfinished(folder)
    except BadInputError:
        return _waiting("No request has ended yet.")
    ended = sum(not record.warmup and record.lane == EXACT for record in run.records)
    return _rendered(run, f"Measuring: {ended} requests so far, no verdict before the run has ended.")


def _rendered(run: Run, headline: str) -> str:
    content, _ = build(run, judge(run.manifest, run.records))
    if headline:
        content = replace(content, headline=headline, warnings=())
    return html.render(content, run.manifest.records_sha256)


def _waiting(words: str) -> str:
    from markupsafe import escape

    return f'<!DOCTYPE html>\n<html lang="en">\n<title>specdec</title>\n<p>{escape(words)}</p>\n</html>\n'
