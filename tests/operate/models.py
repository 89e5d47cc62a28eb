"""AWS's service models, which botocore reads from its files."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from botocore.loaders import create_loader

_create = functools.cache(create_loader)


def models_read_once() -> AbstractContextManager[Any]:
    """Every command makes a session of its own, and each session would read AWS's service models anew:
    seconds for nothing.
    """
    return mock.patch("botocore.session.create_loader", _create)
