"""What a server says of itself before a run: its model, engine and longest context."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from specdec.benchmark.client import Client
from specdec.benchmark.http1 import Cut, ProtocolError, Refused
from specdec.benchmark.remedies import remedy
from specdec.errors import BadInputError, EnvironmentFault, Mistake
from specdec.text import is_printable, shortened

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan, Target

_TELLING = (301, 302, 303, 307, 308, 401, 403, 407)
"""Answers to the first question that the requests would get too."""


async def all_served(targets: Sequence[Target], plan: Plan, tls: ssl.SSLContext) -> list[Target]:
    """The targets as their servers say that they serve them.

    Raises:
        SpecdecError: as of ``served``, of the first that has one. All are waited for, since what a later one
            raises would be printed with its traceback.
    """
    asked = (served(target, plan, tls) for target in targets)
    told = await asyncio.gather(*asked, return_exceptions=True)
    answers: list[Target] = []
    for answer in told:
        if isinstance(answer, BaseException):
            raise answer
        answers.append(answer)
    return answers


async def served(target: Target, plan: Plan, tls: ssl.SSLContext) -> Target:
    """The target with the model's name and engine as the server tells them.

    Raises:
        EnvironmentFault: no server answers.
        BadInputError: it would refuse the requests too, or serves no model to ask for.
    """
    client = Client(target, plan.timeouts, plan.headers, tls=tls)
    route = client.endpoint.below_base("/models")
    shown = route.partition("?")[0]
    try:
        status, body, location = await client.get(route)
    except (Refused, TimeoutError, Cut, ProtocolError) as error:
        # A server without TLS may wait for the rest of what it takes for a request.
        secure = ", and no TLS" if target.url.startswith("https:") else ""
        reason = str(error) or f"no answer{secure} within {plan.timeouts.connect:g} s"
        raise EnvironmentFault(
            f"{target.variant}: no server at {target.address}: {reason}",
            remedy=f"{remedy('refused', reason)}; nothing was measured",
        ) from None
    if status in _TELLING:
        words = f"HTTP {status}: {location or ''}".rstrip(": ")
        mistake = Mistake("target", target.address, f"answers GET {shown} with {words}", remedy("", words))
        raise BadInputError(target.variant, [mistake])
    listed = _models(plan.secrets.hide(body.decode(errors="replace"))) if status == 200 else {}
    if target.model is not None:
        if listed and target.model not in listed:
            raise BadInputError(
                target.address, [Mistake("model", target.model, "is not served", f"Use {_some(listed)}")]
            )
        return target.as_served(target.model, *listed.get(target.model, (None, None)))
    if len(listed) != 1:
        problem = (
            f"serves {len(listed)} models" if status == 200 else f"answers GET {shown} with HTTP {status}"
        )
        ways = f"Name one: {_some(listed)}" if listed else "Name the model to ask for, with --model"
        mistake = Mistake("model", None, f"is not given, and the server {problem}", ways)
        if status == 404:
            ways = "Correct the path; if the server has no such list, name the model with --model"
            mistake = Mistake("path", target.address, problem, ways)
        raise BadInputError(f"target {target.variant}", [mistake])
    model, facts = next(iter(listed.items()))
    return target.as_served(model, *facts)


def _models(body: str) -> dict[str, tuple[str | None, int | None]]:
    """Owner and longest context of each model, where told."""
    try:
        parsed: Any = json.loads(body)
        facts = {
            str(model["id"]): (model.get("owned_by"), model.get("max_model_len")) for model in parsed["data"]
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {
        model: (
            owner if isinstance(owner, str) and is_printable(owner) else None,
            length if isinstance(length, int) and length > 0 else None,
        )
        for model, (owner, length) in facts.items()
        if model.strip() and is_printable(model)
    }


def _some(models: Iterable[str]) -> str:
    names = list(models)
    more = f" or one of {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(shortened(name, 100) for name in names[:10]) + more
