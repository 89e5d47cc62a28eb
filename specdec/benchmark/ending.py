"""How the measured part of a run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, cast

from specdec.benchmark.meeting import MemberLostError
from specdec.errors import SpecdecError
from specdec.runs.manifest import Status

_Fault = TypeVar("_Fault", bound=Exception)


class ServerGoneError(SpecdecError):
    """One variant's server stopped answering; the run ends."""


async def ended(measuring: Awaitable[None]) -> tuple[Status, str | None]:
    """How the measured part of a run ended, and what ended it early.

    Raises:
        OSError: what was measured cannot be kept.
    """
    try:
        await measuring
    except asyncio.CancelledError:
        return "interrupted", "Ctrl-C or a request to end (SIGTERM)"
    except MemberLostError as lost:
        return "failed", str(lost)
    except SpecdecError as error:
        return "failed", ". ".join(filter(None, (str(error), error.remedy)))
    except ExceptionGroup as group:
        gone = _first_of(group, ServerGoneError) or _first_of(group, MemberLostError)
        if gone is None:
            raise _first_of(group, OSError) or group from None
        return "failed", str(gone)
    return "complete", None


def _first_of(group: BaseExceptionGroup[Any], kind: type[_Fault]) -> _Fault | None:
    for error in group.exceptions:
        fault = (
            _first_of(cast("BaseExceptionGroup[Any]", error), kind)
            if isinstance(error, BaseExceptionGroup)
            else error
        )
        if isinstance(fault, kind):
            return fault
    return None
