"""Waits for the services before anything is measured."""

from __future__ import annotations

import time
import urllib.error
import urllib.request

from specdec.errors import EnvironmentFault
from specdec.pod.log import say

_POLL_SECONDS = 5.0


def wait_for_services(services: dict[str, str], *, seconds: float, poll: float = _POLL_SECONDS) -> None:
    """Returns once every service says that it is healthy and serves a model.

    Waits for the first one however long it takes: there may be no nodes yet, and a pod that waits costs
    nothing. From the first on, the others get ``seconds``.

    Raises:
        EnvironmentFault: one did not in time; the message says what each said last.
    """
    deadline: float | None = None
    waiting = dict.fromkeys(services, "not asked yet")
    last_line = ""
    while waiting:
        for variant in list(waiting):
            problem = not_ready(services[variant])
            if problem is None:
                say(f"{variant} is ready")
                del waiting[variant]
                deadline = deadline or time.monotonic() + seconds
            else:
                waiting[variant] = problem
        if not waiting:
            return
        if deadline is not None and time.monotonic() >= deadline:
            words = "; ".join(
                f"{variant} at {services[variant]}: {problem}" for variant, problem in waiting.items()
            )
            raise EnvironmentFault(
                f"not ready {seconds:.0f} s after the first: {words}",
                remedy="Look at the servers' pods and logs",
            )
        now = ", ".join(f"{variant}: {problem}" for variant, problem in waiting.items())
        if now != last_line:
            say(f"waiting for {now}")
            last_line = now
        time.sleep(poll)


def not_ready(url: str) -> str | None:
    """Why the server behind a base URL cannot be measured yet; None if it can."""
    base = url.rstrip("/").removesuffix("/v1")
    for path in ("/health", "/v1/models"):
        try:
            with urllib.request.urlopen(f"{base}{path}", timeout=10) as answer:  # noqa: S310
                answer.read()
        except urllib.error.HTTPError as error:
            return f"{path} answers {error.code}"
        except (urllib.error.URLError, OSError) as error:
            return f"{path}: {getattr(error, 'reason', error)}"
    return None
