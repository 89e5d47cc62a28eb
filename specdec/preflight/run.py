"""Runs all checks side by side. A check that is refused an answer yields ``unknown``, and the others go
on.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

from specdec.aws import DeniedError, ThrottledError, unexpected
from specdec.errors import EnvironmentFault
from specdec.preflight import (
    account,
    account_rules,
    addons,
    blocks,
    capacity,
    cluster,
    cost,
    guards,
    mirror,
    names,
    network,
    placing,
    platform,
    prompts,
    store,
)
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKS: dict[str, Callable[[Scope], Iterator[Finding]]] = {
    "identity": account.identity,
    "region": account.region,
    "permissions": account.permissions,
    "bootstrap": account.bootstrap,
    "boundary": account_rules.boundary,
    "key": account_rules.key,
    "names": names.names,
    "network": network.network,
    "cluster": cluster.cluster,
    "mirror": mirror.mirror,
    "quota": capacity.quota,
    "offering": capacity.offering,
    "catalogue": capacity.guesses,
    "zones": placing.zones,
    "address range": placing.address_range,
    "reservation": capacity.reservation,
    "capacity blocks": blocks.blocks,
    "kubernetes": platform.kubernetes,
    "add-ons": addons.addons,
    "node image": platform.image,
    "endpoints": platform.endpoints,
    "store": store.store,
    "access": placing.access,
    "guards": guards.guards,
    "prompts": prompts.prompts,
    "compiles": cost.compiled,
    "cost": cost.cost,
}
"""Name to check, in the order in which findings are shown."""

GATE = "region"
"""The check without which no other makes sense: a region that is not enabled does not even know the
caller.
"""


def run(scope: Scope, *, on_done: Callable[[str, int, int], None]) -> list[Finding]:
    """All findings of all checks.

    Args:
        scope: what to look at.
        on_done: told the name of each check as it ends, how many have ended, and how many there are.

    Raises:
        NoAccessError: the credentials themselves are not good, so that no check can say anything.
    """
    findings: dict[str, list[Finding]] = {}
    if GATE in CHECKS:
        findings[GATE] = _one(GATE, scope)
        on_done(GATE, 1, len(CHECKS))
        if any(finding.level == "blocker" for finding in findings[GATE]):
            return findings[GATE]
    with ThreadPoolExecutor(max_workers=8) as pool:
        pending = {pool.submit(_one, name, scope): name for name in CHECKS if name not in findings}
        try:
            for count, done in enumerate(as_completed(pending), len(findings) + 1):
                findings[pending[done]] = done.result()
                on_done(pending[done], count, len(CHECKS))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [finding for name in CHECKS for finding in findings[name]]


def _one(name: str, scope: Scope) -> list[Finding]:
    findings: list[Finding] = []
    try:
        findings.extend(CHECKS[name](scope))
    except DeniedError as error:
        findings.append(Finding(name, "unknown", f"not checked: {error}", error.remedy, denied=error.action))
    except (ThrottledError, EnvironmentFault) as error:
        findings.append(Finding(name, "unknown", f"not checked: {error}", error.remedy))
    except Exception as error:
        fault = unexpected(error)
        if fault is None:
            raise
        findings.append(Finding(name, "unknown", f"not checked: {fault}", fault.remedy))
    return findings
