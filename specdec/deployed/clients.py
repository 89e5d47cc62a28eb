"""Clients of one region, and who asks through them."""

from __future__ import annotations

import threading
from typing import Any

from specdec.aws import UnknownCallerError, calls, config
from specdec.errors import SpecdecError

HOME = "us-east-1"
"""A region that every account has: asked where the experiment's own region does not know the caller."""


class Clients:
    """boto3 clients of one region, made once each. Making a client is not safe from several threads; using
    one is.
    """

    def __init__(self, session: Any, region: str) -> None:
        self.region = region
        self._session = session
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}

    def fresh(self, service: str, *, region: str | None = None) -> Any:
        """A client of its own, for who changes it."""
        return self._session.client(service, region_name=region or self.region, config=config())

    def __call__(self, service: str, *, region: str | None = None) -> Any:
        """The client of one service, in the region of these clients or in another."""
        key = f"{service}@{region or self.region}"
        with self._lock:
            if key not in self._made:
                self._made[key] = self.fresh(service, region=region)
            return self._made[key]


def who(clients: Clients) -> tuple[str, str]:
    """Account number and ARN of the caller.

    Raises:
        NoAccessError: no usable credentials.
        EnvironmentFault: AWS cannot be reached.
    """
    try:
        return _who(clients("sts"))
    except UnknownCallerError:
        try:
            return _who(clients("sts", region=HOME))
        except SpecdecError:
            pass
        raise


def _who(sts: Any) -> tuple[str, str]:
    with calls():
        answer = sts.get_caller_identity()
    return str(answer["Account"]), str(answer["Arn"])
