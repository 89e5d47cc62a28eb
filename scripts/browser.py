"""A real browser without a window, driven over a pipe by the Chrome DevTools Protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
SECONDS = 60.0
_START = """
import os, sys
read, write, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.dup2(read, 103), os.dup2(write, 104)
os.dup2(103, 3), os.dup2(104, 4)
os.execv(program, sys.argv[3:])
"""
# The protocol's pipes are file descriptors 3 and 4 of the browser, see --remote-debugging-pipe.


def find() -> str | None:
    """The browser of this machine, ``SPECDEC_BROWSER`` before all others."""
    wanted = os.environ.get("SPECDEC_BROWSER")
    return next(filter(None, map(shutil.which, (wanted,) if wanted else NAMES)), None)


class Browser:
    """One page of one browser process, which ends with it."""

    def __init__(self, program: str, profile: Path) -> None:
        read_here, self._write_there = os.pipe()
        self._read_here, write_there = os.pipe()
        arguments = (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "about:blank",
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(read_here), str(write_there), program, *arguments],
            pass_fds=(read_here, write_there),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_here)
        os.close(write_there)
        self._number, self._buffer, self._session = 0, b"", None
        self.requests: list[str] = []

    def __enter__(self) -> Self:
        try:
            self._attach()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _attach(self) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write_there)
        os.close(self._read_here)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends one command and returns its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write_there, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def show(
        self, address: str, *, width: int, height: int = 900, dark: bool = False, media: str = "screen"
    ) -> None:
        """Loads a page as a screen of this size shows it."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Page.navigate", url=address)
        deadline = time.monotonic() + SECONDS
        while self.ask("document.readyState") != "complete" or self.ask("location.href") == "about:blank":
            assert time.monotonic() < deadline, f"{address} was not loaded within {SECONDS:.0f} s"
            time.sleep(0.02)

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def picture(self, target: Path, *, whole: bool = True) -> None:
        """The whole page, or what the screen shows of it, as PNG for a person to look at."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole, format="png")["data"]
        target.write_bytes(base64.b64decode(data))

    def printed(self) -> bytes:
        """The page as PDF on A4."""
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": True}
        return base64.b64decode(self.call("Page.printToPDF", **paper)["data"])

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read_here], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._read_here, 1 << 20) if ready else b""
            assert data, "the browser does not answer"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message
